"""A workflow awaits a loop whose id another one has that still runs."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from agent_runs import Reply
from installation import Installation
from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, Worker
from temporalio.workflow import ParentClosePolicy
from waiting import eventually

from perdure.domain.foundation.errors import NotFound
from perdure.domain.run.messages import Retry
from perdure.temporal import PerdurePlugin

with workflow.unsafe.imports_passed_through():
    from perdure.workflow import Child, LoopFailed, OpenGate, refine

SHORT = {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 4}}
DRAFT = "one two three four five"
MISSED: Reply = {"text": DRAFT}


@dataclass
class Way:
    """How the loops are awaited, and with which goals."""

    model: str = ""
    run: str = ""
    goals: tuple[str, ...] = ("Be short.",)
    policy: int = ParentClosePolicy.REQUEST_CANCEL
    again: bool = False


@workflow.defn
class Joining:
    """Awaits loops under one id at the same time; or goes on as new, and awaits its loop again."""

    def __init__(self) -> None:
        self.due = False

    @workflow.run
    async def run(self, way: Way) -> list[str]:
        loops = [asyncio.create_task(self._loop(way, goal)) for goal in way.goals]
        if way.again:
            await workflow.wait_condition(lambda: self.due)
            workflow.continue_as_new(replace(way, again=False))
        return [await loop for loop in loops]

    async def _loop(self, way: Way, goal: str) -> str:
        try:
            result = await refine(
                goal, id=way.run, rubric=[SHORT], models={"executor": way.model},
                refine={"plan": "off"}, learn=False, recall=False, on_gate=self.on_gate,
                child=Child(parent_close_policy=ParentClosePolicy(way.policy)),
            )  # fmt: skip
        except LoopFailed as failed:
            return f"{failed.result.reason}: {failed.result.explanation}"
        return f"{result.outcome}: {result.output}"

    async def on_gate(self, gate: OpenGate) -> None:
        """Leave it to people."""

    @workflow.signal
    def now(self) -> None:
        """Go on as new."""
        self.due = True


@asynccontextmanager
async def joining(
    site: Installation, way: Way, *, delay_s: float = 0.0, first: Reply = MISSED
) -> AsyncGenerator[WorkflowHandle[Any, Any]]:
    """The workflow, started; at its end it must play as it was."""
    plugin = PerdurePlugin(site.settings)
    client = await Client.connect(site.address, plugins=[plugin])
    queue = f"joining-{uuid.uuid4().hex[:8]}"
    model = await site.script({"replies": [first, {"text": "Hi.", "delay_s": delay_s}]})
    given = replace(way, model=model, run=f"{queue}-mail")
    async with Worker(client, task_queue=queue, workflows=[Joining]):
        handle = await client.start_workflow(Joining.run, given, id=queue, task_queue=queue)
        yield handle
        history = await handle.fetch_history()
    await Replayer(workflows=[Joining], plugins=[plugin]).replay_workflow(history)


async def drafted(site: Installation, run: str) -> None:
    """Wait until the second draft of a loop is asked for."""

    async def asked() -> bool:
        return await site.replies_taken(run) >= 2

    await eventually(asked)


SECOND: dict[str, tuple[str, Callable[[str], bool]]] = {
    "the same task joins": ("Be short.", "accepted: Hi.".__eq__),
    "another task is refused": ("Be brief.", lambda told: told.startswith("invalid_task: ")),
}


@pytest.mark.parametrize(("goal", "fits"), SECOND.values(), ids=SECOND.keys())
async def test_a_second_wait_under_the_id_of_a_running_loop(
    bare: Installation, goal: str, fits: Callable[[str], bool]
) -> None:
    async with joining(bare, Way(goals=("Be short.", goal)), delay_s=2.0) as handle:
        told: list[str] = await handle.result()
        # The server may start either of them first.
        told.remove("accepted: Hi.")
        assert fits(told[0]), told
        assert await bare.replies_taken(f"{handle.id}-mail") == 2


KEPT = {
    "abandoned": (ParentClosePolicy.ABANDON, "accepted: Hi."),
    "stopped": (ParentClosePolicy.REQUEST_CANCEL, f"stopped: {DRAFT}"),
}


@pytest.mark.parametrize(("policy", "told"), KEPT.values(), ids=KEPT.keys())
async def test_a_workflow_that_goes_on_as_new_finds_its_loop(
    bare: Installation, policy: ParentClosePolicy, told: str
) -> None:
    async with joining(bare, Way(policy=int(policy), again=True), delay_s=5.0) as handle:
        await drafted(bare, f"{handle.id}-mail")
        await handle.signal(Joining.now)
        assert await handle.result() == [told]
        assert await bare.replies_taken(f"{handle.id}-mail") == 2


async def test_a_failed_loop_is_retried_beside_the_workflow_that_awaited_it(
    bare: Installation,
) -> None:
    refused: Reply = {"error": {"status": 401, "message": "no such key"}}
    async with joining(bare, Way(again=True), first=refused) as handle:
        run = f"{handle.id}-mail"

        async def begun() -> bool:
            try:
                return bool(await bare.gateway.status(run))
            except NotFound:
                return False

        await eventually(begun)
        assert (await bare.gateway.result(run)).outcome == "failed"
        await bare.gateway.verb(run, Retry(by="t"))
        await handle.signal(Joining.now)
        assert await handle.result() == ["accepted: Hi."]


@pytest.mark.slow
async def test_a_cancelled_wait_leaves_the_loop_that_it_did_not_start(bare: Installation) -> None:
    way = Way(policy=int(ParentClosePolicy.ABANDON), again=True)
    async with joining(bare, way, delay_s=15.0) as handle:
        run = f"{handle.id}-mail"
        await drafted(bare, run)
        await handle.signal(Joining.now)
        now = bare.client.get_workflow_handle(handle.id)

        async def waits() -> bool:
            events = (await now.fetch_history()).events
            return any(one.HasField("timer_started_event_attributes") for one in events)

        await eventually(waits)
        await now.cancel()
        with pytest.raises(WorkflowFailureError):
            await now.result()
        assert (await now.describe()).status == WorkflowExecutionStatus.CANCELED
        assert (await bare.gateway.result(run)).outcome == "accepted"


async def test_the_id_of_the_workflow_itself_is_refused(bare: Installation) -> None:
    plugin = PerdurePlugin(bare.settings)
    client = await Client.connect(bare.address, plugins=[plugin])
    queue = f"joining-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[Joining]):
        given = Way(model="scripted:none", run=queue)
        with pytest.raises(WorkflowFailureError) as failed:
            await client.execute_workflow(Joining.run, given, id=queue, task_queue=queue)
    assert isinstance(failed.value.cause, ApplicationError)
    assert "Give the loop another one" in failed.value.cause.message
