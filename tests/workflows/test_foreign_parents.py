"""A loop that a workflow of somebody else's starts is listed and steered like any run."""

import uuid
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from installation import Installation
from listed import listed
from temporalio import workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError
from temporalio.worker import Worker
from waiting import eventually

from perdure.domain.run.messages import Resume


@pytest.fixture
async def plain(site: Installation) -> Client:
    """A client that knows nothing of Perdure: no converter, no plugin."""
    return await Client.connect(site.address)


@workflow.defn(name="Order", sandboxed=False)
class Order:
    """A workflow of somebody else's, which awaits a loop."""

    @workflow.run
    async def run(self, task: dict[str, Any], queue: str) -> Any:
        name = f"{workflow.info().workflow_id}-mail"
        return await workflow.execute_child_workflow("AgentLoop", task, id=name, task_queue=queue)


async def test_a_loop_is_the_child_of_any_workflow(site: Installation, plain: Client) -> None:
    task, name = await _apple(site), f"order-{uuid.uuid4().hex[:8]}"
    async with Worker(plain, task_queue=name, workflows=[Order]):
        order = await plain.start_workflow(
            "Order", args=[task, site.settings.task_queue], id=name, task_queue=name
        )
        result = await order.result()
    assert isinstance(result, dict)
    assert (result["outcome"], result["output"]) == ("accepted", "An apple.")
    assert f"{name}-mail" in await listed(site.gateway)


async def test_an_open_child_of_any_workflow_is_listed(site: Installation, plain: Client) -> None:
    task, name = await _apple(site), f"order-{uuid.uuid4().hex[:8]}"
    async with Worker(plain, task_queue=name, workflows=[Order]):
        order = await plain.start_workflow(
            "Order", args=[task, site.settings.task_queue], id=name, task_queue=name
        )
        mail = plain.get_workflow_handle(f"{name}-mail")
        await eventually(partial(_sent, mail, "pause"))

        async def paused() -> bool:
            row = (await listed(site.gateway)).get(f"{name}-mail")
            return row is not None and row.lifecycle == "paused"

        await eventually(paused)

        async def resumed_with_all() -> bool:
            report = await site.gateway.verb_all(Resume(), kind="agent")
            return f"{name}-mail" in report.taken

        await eventually(resumed_with_all)
        await order.result()


async def _sent(run: WorkflowHandle[object, object], signal: str) -> bool:
    with suppress(RPCError):
        await run.signal(signal)
        return True
    return False


async def _apple(site: Installation) -> dict[str, object]:
    model = await site.script({"replies": [{"text": "An apple."}]})
    return {"goal": "Name a fruit.", "models": {"executor": model}}
