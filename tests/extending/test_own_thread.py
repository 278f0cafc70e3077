"""Code of others that never returns: nobody waits for it, and it keeps nothing that others need."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from pydantic import JsonValue
from temporalio import activity
from temporalio.worker import Worker

from perdure import IterationFacts, adapt, check
from perdure.adapters.hooks import ServedHooks
from perdure.domain.run.hooks import WantedHook
from perdure.extending.own_thread import in_own_thread
from perdure.testing import PerdureEnvironment, ScriptedModel

MORE_THAN_A_POOL_HAS = 40
FACTS = IterationFacts(run="r", kind="refine", iteration=1, idempotency_key="k")
ENDING = threading.Event()


@adapt(name="acme.waits")
def waits(facts: IterationFacts) -> dict[str, JsonValue]:
    ENDING.wait()
    return {}


async def _hook() -> object:
    wanted = WantedHook(kind="adapt", name="acme.waits")
    return await ServedHooks({"acme.waits": waits}).run(wanted, FACTS)


async def _call() -> object:
    return await in_own_thread(ENDING.wait)


@pytest.mark.parametrize("never_ends", [_hook, _call])
async def test_calls_that_never_end_leave_the_threads_of_others_alone(
    never_ends: Callable[[], "asyncio.Future[object]"],
) -> None:
    calls = [asyncio.ensure_future(never_ends()) for _ in range(MORE_THAN_A_POOL_HAS)]
    try:
        await asyncio.sleep(0.1)
        for one in calls:
            one.cancel()
        await asyncio.wait(calls)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 60) == "free"
    finally:
        ENDING.set()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*calls)
        ENDING.clear()


@check(name="acme.apart")
def apart(output: str) -> bool:
    """Whether the process could end without waiting for this thread."""
    return threading.current_thread().daemon


@activity.defn
async def theirs() -> None:
    """What their worker is there for."""


async def test_a_check_runs_in_a_thread_that_no_process_waits_for() -> None:
    async with PerdureEnvironment.start(checks=[apart]) as environment:
        model = await environment.model(ScriptedModel("one"))
        task = {
            "goal": "Write.", "learn": False, "models": {"executor": model},
            "rubric": [{"name": "r", "evaluator": {"check": "acme.apart"}}],
            "refine": {"plan": "off", "max_iterations": 1, "quality_threshold": 1.0},
        }  # fmt: skip
        async with Worker(environment.client, task_queue="theirs", activities=[theirs]):
            result = await environment.client.execute_workflow(
                "RefineLoop", task, id="apart", task_queue="theirs"
            )
    assert result["outcome"] == "accepted"
