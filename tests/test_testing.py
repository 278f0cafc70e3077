"""Workflows are tested without waiting: deadlines, timers and pauses pass at once."""

from datetime import timedelta
from typing import Any

from pydantic import JsonValue
from temporalio import activity, workflow
from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleSpec,
)
from temporalio.common import RetryPolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.plugin import SimplePlugin
from temporalio.worker import Worker
from waiting import eventually

from perdure.testing import PerdureEnvironment, ScriptedModel

with workflow.unsafe.imports_passed_through():
    from perdure.workflow import agent

QUEUE = "their-queue"
WEEK = timedelta(days=7)
ASK: dict[str, JsonValue] = {
    "tool_calls": [{"name": "human.ask", "arguments": {"question": "Which colour?"}}]
}


@activity.defn
async def flaky() -> int:
    """Works at the fourth attempt."""
    if activity.info().attempt < 4:
        raise RuntimeError("not yet")
    return activity.info().attempt


@workflow.defn
class Patient:
    """Waits for days before, in and after a loop; says how many days passed for it."""

    @workflow.run
    async def run(self, task: dict[str, Any]) -> list[str]:
        began = workflow.now()
        await workflow.sleep(WEEK)
        attempts = await workflow.execute_activity(
            flaky,
            start_to_close_timeout=timedelta(minutes=1),
            retry_policy=RetryPolicy(initial_interval=timedelta(hours=3), backoff_coefficient=2),
        )
        said = await agent("Paint it.", id="painting", **task)
        days = (workflow.now() - began).days
        return [str(said.output), f"attempt {attempts}", f"after {days} days"]


async def _task(environment: PerdureEnvironment) -> dict[str, Any]:
    # It ends well only if it was told what the expired question had as its default.
    then: dict[str, JsonValue] = {"text": "Blue, then.", "when": {"contains": "turquoise"}}
    model = await environment.model(ScriptedModel(ASK, then))
    return {
        "models": {"executor": model},
        "tools": {"access": "full", "allow": ["human.ask"]},
        "gates": {"timeout_s": WEEK.total_seconds(), "on_expiry": "default:turquoise"},
    }


def _worker(environment: PerdureEnvironment) -> Worker:
    return Worker(environment.client, task_queue=QUEUE, workflows=[Patient], activities=[flaky])


async def test_days_of_timers_retries_and_of_a_gate_pass_at_once() -> None:
    async with PerdureEnvironment.start(skip_time=True) as environment, _worker(environment):
        told = await environment.client.execute_workflow(
            Patient.run, await _task(environment), id="patient", task_queue=QUEUE
        )
    assert told[:2] == ["Blue, then.", "attempt 4"]


async def test_a_gate_waits_until_the_test_lets_time_pass() -> None:
    async with PerdureEnvironment.start() as environment, _worker(environment):
        loop = await environment.client.start_workflow(
            "AgentLoop", {"goal": "Paint it.", **await _task(environment)},
            id="painting", task_queue=QUEUE,
        )  # fmt: skip

        async def asked() -> bool:
            return bool(await loop.query("gates"))

        await eventually(asked)
        await environment.fast_forward(loop, WEEK)
        result: Any = await loop.result()
    assert result["output"] == "Blue, then."


async def test_a_weekly_schedule_is_triggered_and_its_run_forwarded() -> None:
    async with PerdureEnvironment.start() as environment, _worker(environment):
        client = environment.client
        task = {"goal": "Paint it.", **await _task(environment)}
        weekly = await client.create_schedule(
            "weekly",
            Schedule(
                action=ScheduleActionStartWorkflow(
                    "AgentLoop", task, id="painting", task_queue=QUEUE
                ),
                spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=WEEK)]),
            ),
        )
        await weekly.trigger()

        async def started() -> str | None:
            running = (await weekly.describe()).info.recent_actions
            return running[0].action.workflow_id if running else None  # type: ignore[union-attr]

        name = await eventually(started)
        assert name is not None
        run = client.get_workflow_handle(name)

        async def asked() -> bool:
            return bool(await run.query("gates"))

        await eventually(asked)
        await environment.fast_forward(run, WEEK)
        result: Any = await run.result()
    assert result["output"] == "Blue, then."


async def test_a_plugin_that_sets_a_converter_comes_before_perdures() -> None:
    theirs = SimplePlugin("theirs", data_converter=pydantic_data_converter)
    async with PerdureEnvironment.start(plugins=[theirs]) as environment:
        assert environment.client.data_converter is not pydantic_data_converter
        _worker(environment)  # refused if its client does not write what loops read
