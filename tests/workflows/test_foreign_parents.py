"""A loop that a workflow of somebody else's starts is listed and steered like any run."""

import asyncio
import uuid
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from holding import HELD, Holding
from installation import Installation
from listed import listed
from temporalio import workflow
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError
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


@workflow.defn(name="Cancelled", sandboxed=False)
class Cancelled:
    """Awaits a loop with the options of docs/temporal.md, or so that no cancellation reaches it."""

    @workflow.run
    async def run(self, task: dict[str, Any], queue: str, shielded: bool) -> Any:
        name = f"{workflow.info().workflow_id}-mail"
        loop = workflow.execute_child_workflow(
            "AgentLoop",
            task,
            id=name,
            task_queue=queue,
            cancellation_type=workflow.ChildWorkflowCancellationType.TRY_CANCEL,
            parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
        )
        if not shielded:
            return await loop
        waiting = asyncio.ensure_future(loop)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            await workflow.get_external_workflow_handle(name).cancel()
            return await waiting


@pytest.mark.parametrize("shielded", [False, True])
async def test_a_loop_stops_with_its_best_result_when_its_parent_is_cancelled(
    site: Installation, plain: Client, holding: Holding, shielded: bool
) -> None:
    task, name = await _apple(site, delay_s=HELD), f"order-{uuid.uuid4().hex[:8]}"
    async with Worker(plain, task_queue=name, workflows=[Cancelled]):
        asked = [task, site.settings.task_queue, shielded]
        order = await plain.start_workflow("Cancelled", args=asked, id=name, task_queue=name)
        await holding.begun(1)
        await order.cancel()
        if shielded:
            result = await order.result()
            assert isinstance(result, dict)
            assert result["outcome"] == "stopped"
        else:
            with pytest.raises(WorkflowFailureError) as ended:
                await order.result()
            assert isinstance(ended.value.cause, CancelledError)
    assert (await site.gateway.result(f"{name}-mail")).outcome == "stopped"


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


async def _apple(site: Installation, **more: object) -> dict[str, object]:
    model = await site.script({"replies": [{"text": "An apple.", **more}]})
    return {"goal": "Name a fruit.", "models": {"executor": model}}
