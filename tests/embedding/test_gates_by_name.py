"""A workflow that knows nothing of Perdure answers a loop's gates, by names that the docs give."""

import uuid
from typing import Any

from installation import Installation
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

WRITE = {"path": "notes.md", "content": "Fewer bugs.", "expected_hash": "absent"}
SCRIPT = {
    "replies": [
        {"tool_calls": [{"name": "fs.write", "arguments": WRITE}]},
        {"tool_calls": [{"name": "human.ask", "arguments": {"question": "Which colour?"}}]},
        {"text": "Written."},
    ]
}
TASK = {
    "goal": "Write the notes.",
    "tools": {"access": "full", "allow": ["fs.write", "human.ask"], "approve": ["fs.write"]},
}


@workflow.defn
class Shop:
    """What `docs/temporal.md` shows in TypeScript."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, Any]] = {}

    @workflow.signal(name="questions_below")
    async def told(self, message: dict[str, Any]) -> None:
        """Approve the call, and answer the question."""
        for question in message["questions"]:
            name = f"{question['run']} {question['gate']} {question['opened_at']}"
            if name in self.seen:
                continue
            self.seen[name] = question
            says = {"choice": "approve"} if question["subject"] == "fs.write" else {"text": "blue"}
            asking = workflow.get_external_workflow_handle(question["run"])
            await asking.signal("answer", {"gate": question["gate"], **says})

    @workflow.run
    async def run(self, task: dict[str, Any], queue: str) -> list[Any]:
        """Await the loop; what it gave, and what it asked."""
        result: dict[str, Any] = await workflow.execute_child_workflow(
            "AgentLoop",
            task,
            id=f"{workflow.info().workflow_id}-loop",
            task_queue=queue,
            memo={"answered_above": True, "note": "of the shop"},
        )
        return [result["output"], [str(one["kind"]) for one in self.seen.values()]]


async def test_a_plain_workflow_answers_the_gates_of_its_child(site: Installation) -> None:
    plain = await Client.connect(site.address)
    task = {**TASK, "models": {"executor": await site.script(SCRIPT)}}
    name = f"shop-{uuid.uuid4().hex[:8]}"
    async with Worker(
        plain, task_queue=name, workflows=[Shop], workflow_runner=UnsandboxedWorkflowRunner()
    ):
        output, kinds = await plain.execute_workflow(
            Shop.run, args=[task, site.settings.task_queue], id=name, task_queue=name
        )
    assert output == "Written."
    assert kinds == ["tool_approval", "question"]
    status = await site.gateway.status(f"{name}-loop")
    assert not status.refused
