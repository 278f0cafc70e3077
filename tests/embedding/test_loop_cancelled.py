"""What becomes of a loop, and of the workflow that awaits it, when the wait is cancelled."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from installation import Installation
from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError
from temporalio.worker import Replayer, Worker
from waiting import eventually

from perdure.domain.run.messages import Stop
from perdure.domain.run.result import RunResult
from perdure.temporal import PerdurePlugin

with workflow.unsafe.imports_passed_through():
    from perdure.workflow import LoopCancelled, refine

SHORT = {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 4}}
DRAFT = "one two three four five"
SLOW = {"replies": [{"text": DRAFT}, {"text": "Hi.", "delay_s": 600.0}]}


@dataclass
class Way:
    """How the wait ends."""

    mode: str
    model: str


@workflow.defn
class Waiting:
    """Awaits a loop whose second draft takes too long, and tells how the wait ended."""

    def __init__(self) -> None:
        self.due = False

    @workflow.run
    async def run(self, way: Way) -> str:
        try:
            return f"returned {_shown(await self._waited(way))}"
        except TimeoutError as late:
            return f"timed out {_shown(LoopCancelled.result_of(late))}"
        except asyncio.CancelledError as cancelled:
            told = f"cancelled {_shown(LoopCancelled.result_of(cancelled))}"
            if way.mode in {"workflow", "twice"}:
                workflow.upsert_memo({"told": told})
                raise
            return told

    async def _waited(self, way: Way) -> RunResult:
        me = workflow.info().workflow_id
        loop = refine(
            "Be short.", id=f"{me}-mail", rubric=[SHORT], models={"executor": way.model},
            refine={"plan": "off"}, learn=False, recall=False,
        )  # fmt: skip
        match way.mode:
            case "timeout" | "twice":
                async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
                    group.create_task(self._expire(limit))
                    return await loop
            case "wait_for":
                return await asyncio.wait_for(loop, 2)
            case "task" | "early":
                task = asyncio.create_task(loop)
                await (asyncio.sleep(0) if way.mode == "early" else self._until_due())
                task.cancel()
                return await task
            case _:
                return await loop

    async def _expire(self, limit: asyncio.Timeout) -> None:
        await self._until_due()
        limit.reschedule(asyncio.get_running_loop().time())

    async def _until_due(self) -> None:
        await workflow.wait_condition(lambda: self.due)

    @workflow.signal
    def now(self) -> None:
        """The time is up."""
        self.due = True


def _shown(result: RunResult | None) -> str:
    return f"{result.outcome}: {result.output}" if result else "nothing"


@asynccontextmanager
async def waiting(
    site: Installation, mode: str, *, cached: int = 1000
) -> AsyncGenerator[WorkflowHandle[Any, Any]]:
    """The workflow, started; at its end it must play as it was."""
    plugin = PerdurePlugin(site.settings)
    client = await Client.connect(site.address, plugins=[plugin])
    queue = f"waiting-{uuid.uuid4().hex[:8]}"
    way = Way(mode, await site.script(SLOW))
    async with Worker(client, task_queue=queue, workflows=[Waiting], max_cached_workflows=cached):
        handle = await client.start_workflow(Waiting.run, way, id=queue, task_queue=queue)
        yield handle
        history = await handle.fetch_history()
    await Replayer(workflows=[Waiting], plugins=[plugin]).replay_workflow(history)


async def drafted(site: Installation, handle: WorkflowHandle[Any, Any]) -> str:
    """The id of the loop, once its second draft is asked for."""
    run = f"{handle.id}-mail"

    async def asked() -> bool:
        return await site.replies_taken(run) >= 2

    await eventually(asked)
    return run


ENDS = {
    "a timeout": ("timeout", f"timed out stopped: {DRAFT}"),
    "a cancelled task": ("task", f"cancelled stopped: {DRAFT}"),
}


@pytest.mark.parametrize(("mode", "told"), ENDS.values(), ids=ENDS.keys())
async def test_the_wait_ends_as_cancelled_with_the_best_result(
    bare: Installation, mode: str, told: str
) -> None:
    async with waiting(bare, mode) as handle:
        await drafted(bare, handle)
        await handle.signal(Waiting.now)
        assert await handle.result() == told


@pytest.mark.parametrize(("mode", "told"), [("wait_for", "timed out"), ("early", "cancelled")])
async def test_a_wait_that_ends_early_ends_in_the_same_way(
    bare: Installation, mode: str, told: str
) -> None:
    async with waiting(bare, mode) as handle:
        assert (await handle.result()).startswith(told)


CANCELLED = {"once": ("workflow", 1000), "a second time meanwhile": ("twice", 1000),
             "without a cache": ("workflow", 0)}  # fmt: skip


@pytest.mark.parametrize(("mode", "cached"), CANCELLED.values(), ids=CANCELLED.keys())
async def test_a_cancelled_workflow_ends_as_cancelled_after_its_loop(
    bare: Installation, mode: str, cached: int
) -> None:
    async with waiting(bare, mode, cached=cached) as handle:
        run = await drafted(bare, handle)
        if mode == "twice":
            await handle.signal(Waiting.now)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()
        assert isinstance(failed.value.cause, CancelledError)
        described = await handle.describe()
        assert described.status == WorkflowExecutionStatus.CANCELED
        assert await described.memo_value("told") == f"cancelled stopped: {DRAFT}"
        assert (await bare.gateway.result(run)).outcome == "stopped"


async def test_a_loop_that_a_person_stops_returns(bare: Installation) -> None:
    async with waiting(bare, "plain") as handle:
        await bare.gateway.verb(await drafted(bare, handle), Stop(mode="now", by="t"))
        assert await handle.result() == f"returned stopped: {DRAFT}"
