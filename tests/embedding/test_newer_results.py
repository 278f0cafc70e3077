"""Loops on workers of a newer version, awaited by a workflow with this version's package."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from installation import Installation
from temporalio import workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from perdure.domain.foundation.names import BETWEEN_RUNS
    from perdure.domain.run.result import RunResult
    from perdure.workflow import LoopFailed, OpenGate, agent

NOVELTY = {"novelty": {"of": "the next version"}}


@workflow.defn(name="AgentLoop", sandboxed=False)
class NextVersion:
    """Asks its parent, and ends as it is told; what it says has a field more everywhere."""

    def __init__(self) -> None:
        self.answer: str | None = None

    @workflow.run
    async def run(self, task: dict[str, Any]) -> dict[str, Any]:
        me, parent = workflow.info().workflow_id, workflow.info().parent
        assert parent is not None
        gate = OpenGate(
            run=me, gate="g1", kind="question", prompt="Which?", choices=("good", "bad"),
            opened_at=workflow.now(),
        )  # fmt: skip
        above = workflow.get_external_workflow_handle(parent.workflow_id)
        asked = {**gate.model_dump(mode="json"), **NOVELTY}
        await above.signal(BETWEEN_RUNS[0], {"run": me, "questions": [asked], **NOVELTY})
        await workflow.wait_condition(lambda: self.answer is not None)
        accepted = self.answer == "good"
        result = RunResult(
            id=me, kind="agent", outcome="accepted" if accepted else "failed", reason="completed",
            explanation="so it is", output=task["goal"], started_at=workflow.now(),
        )  # fmt: skip
        whole = {**result.model_dump(mode="json"), **NOVELTY}
        if accepted:
            return whole
        whole["outcome"] = "failed_in_a_new_way"
        raise ApplicationError("failed", whole, type="RunFailed", non_retryable=True)

    @workflow.signal(name="answer")
    def on_answer(self, given: dict[str, Any]) -> None:
        self.answer = given["choice"]


@workflow.defn(sandboxed=False)
class Awaiting:
    """Awaits a loop, and says what it got of it."""

    @workflow.run
    async def run(self, answer: str) -> str:
        try:
            result = await agent("Do it.", on_gate=lambda gate: answer)
        except LoopFailed as failed:
            return f"{failed.result.outcome}: {failed.result.output}"
        return f"{result.outcome}: {result.output}"


@pytest.mark.parametrize(("answer", "got"), [("good", "accepted"), ("bad", "failed")])
async def test_fields_of_a_newer_version_are_passed_over(
    bare: Installation, answer: str, got: str
) -> None:
    client, queue = await Client.connect(bare.address), f"newer-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[Awaiting, NextVersion]):
        told = await client.execute_workflow(
            Awaiting.run,
            answer,
            id=f"a-{queue}",
            task_queue=queue,
            execution_timeout=timedelta(seconds=20),
        )
    assert told == f"{got}: Do it."
