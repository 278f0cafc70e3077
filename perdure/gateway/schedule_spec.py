"""Translates our schedules to Temporal's, and reads the server's description of a schedule."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleDescription,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
)
from temporalio.common import Priority
from temporalio.converter import WorkflowSerializationContext

from perdure.domain.foundation.names import MEMO_GOAL_CHARACTERS, WORKFLOW_TYPES
from perdure.domain.run.fairness import Turn
from perdure.domain.schedules.plan import Overlap, SchedulePlan
from perdure.domain.schedules.status import Triggered
from perdure.domain.schedules.store import ScheduledStart

SUMMARY_CHARACTERS = 150
NEXT_STARTS = 5
OVERLAPS: dict[Overlap, ScheduleOverlapPolicy] = {
    "skip": ScheduleOverlapPolicy.SKIP,
    "buffer_one": ScheduleOverlapPolicy.BUFFER_ONE,
    "buffer_all": ScheduleOverlapPolicy.BUFFER_ALL,
    "cancel_other": ScheduleOverlapPolicy.CANCEL_OTHER,
    "allow_all": ScheduleOverlapPolicy.ALLOW_ALL,
}


async def task_payload(plan: SchedulePlan, client: Client) -> Payload:
    """The task as the server keeps it, encoded by the client's codec, and always whole.

    A blob of it would be named by the server's schedule only: garbage collection does not see that.
    """
    whole = replace(client.data_converter, external_storage=None)
    # The codec binds a value to its run; this one to what the ids of all its runs begin with.
    place = WorkflowSerializationContext(namespace=client.namespace, workflow_id=plan.name)
    (payload,) = await whole.with_context(place).encode([plan.task])
    return payload


def temporal_schedule(
    plan: SchedulePlan, task: Payload, *, task_queue: str, turn: Turn, state: ScheduleState
) -> Schedule:
    """The Temporal schedule of a plan; it starts the task as any Temporal client would.

    Args:
        plan: the schedule.
        task: its task, encoded.
        task_queue: the queue on which runs are started with only a task.
        turn: priority and fairness of the workflow tasks of its runs; their steps set their own.
        state: whether it is paused, and why.
    """
    times, goal = plan.times, " ".join(plan.goal.split())
    intervals = (
        []
        if times.every_s is None
        else [
            ScheduleIntervalSpec(
                every=timedelta(seconds=times.every_s), offset=timedelta(seconds=times.offset_s)
            )
        ]
    )
    return Schedule(
        action=ScheduleActionStartWorkflow(
            WORKFLOW_TYPES[plan.kind],
            task,
            # The server appends the time, so that each start has an id of its own.
            id=plan.name,
            task_queue=task_queue,
            static_summary=f"{plan.kind}: {goal[:SUMMARY_CHARACTERS]}",
            memo={"goal": goal[:MEMO_GOAL_CHARACTERS], "schedule": plan.name},
            priority=Priority(priority_key=turn.priority, fairness_key=turn.fairness),
        ),
        spec=ScheduleSpec(
            cron_expressions=list(times.cron),
            intervals=intervals,
            jitter=timedelta(seconds=times.jitter_s) if times.jitter_s else None,
            time_zone_name=times.time_zone,
        ),
        policy=SchedulePolicy(
            overlap=OVERLAPS[plan.overlap], catchup_window=timedelta(seconds=plan.catch_up_s)
        ),
        state=state,
    )


def next_starts(described: ScheduleDescription) -> tuple[datetime, ...]:
    """The next start times, the nearest first, also for a paused schedule."""
    return tuple(sorted(described.info.next_action_times)[:NEXT_STARTS])


def open_runs(described: ScheduleDescription) -> tuple[str, ...]:
    """The ids of its open runs, according to the server."""
    return tuple(
        action.workflow_id
        for action in described.info.running_actions
        if isinstance(action, ScheduleActionExecutionStartWorkflow)
    )


def with_recent(
    starts: Sequence[ScheduledStart], described: ScheduleDescription
) -> tuple[ScheduledStart, ...]:
    """The booked starts, and recent starts at the server that are not booked."""
    booked = {start.run for start in starts}
    others = [
        ScheduledStart(run=item.action.workflow_id, at=item.started_at)
        for item in described.info.recent_actions
        if isinstance(item.action, ScheduleActionExecutionStartWorkflow)
        and item.action.workflow_id not in booked
    ]
    return tuple(sorted([*starts, *others], key=lambda start: start.at, reverse=True))


def recent_runs(described: ScheduleDescription) -> dict[str, str]:
    """Its recent runs by the id of their first execution, the newest last."""
    return {
        item.action.first_execution_run_id: item.action.workflow_id
        for item in described.info.recent_actions
        if isinstance(item.action, ScheduleActionExecutionStartWorkflow)
    }


def came_of(name: str, before: ScheduleDescription, after: ScheduleDescription) -> Triggered | None:
    """The outcome of a manual start; None while the server has not handled it."""
    # Compare executions: of starts within one second, by several clients, the ids are equal.
    known = recent_runs(before)
    new = [run for execution, run in recent_runs(after).items() if execution not in known]
    if new:
        return Triggered(schedule=name, run=new[-1])
    held = ", ".join(open_runs(after)) or "a run"
    if after.info.num_actions_skipped_overlap > before.info.num_actions_skipped_overlap:
        return Triggered(schedule=name, why=f"skipped, as {held} is open")
    if _buffered(after) > _buffered(before):
        return Triggered(schedule=name, why=f"waits until {held} ends")
    return None


def _buffered(described: ScheduleDescription) -> int:
    # The SDK's own description does not have this figure.
    return described.raw_description.info.buffer_size
