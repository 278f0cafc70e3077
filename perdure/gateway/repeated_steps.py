"""Steps that a reset would run a second time, although they must run once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.history.v1 import ActivityTaskScheduledEventAttributes, HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo

from perdure.domain.foundation.names import READY_ACTIVITY

ONCE = 1  # the attempts of a step that must not be repeated, such as a tool that is not idempotent
_AT_WORK = frozenset(
    {
        PendingActivityState.PENDING_ACTIVITY_STATE_STARTED,
        PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED,
        PendingActivityState.PENDING_ACTIVITY_STATE_PAUSE_REQUESTED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedStep:
    """A step that was begun; `by` told of its end, and is empty if nobody did."""

    id: str
    name: str
    by: str = ""

    def __str__(self) -> str:
        how = f"ended by {self.by}" if self.by else "begun"
        return f"{self.name} ({self.id}, {how})"


def repeated_steps(
    events: Sequence[HistoryEvent], pending: Iterable[PendingActivityInfo], *, after: int
) -> tuple[RepeatedStep, ...]:
    """The steps that a reset takes back although they may have had their effect.

    Args:
        events: the history of the execution.
        pending: its steps in flight, of which the history does not tell whether they were begun.
        after: the event id of the task to which it is reset.
    """
    once = dict(_once(events))
    done = _ended(events)
    found = [
        RepeatedStep(id=step.activity_id, name=step.activity_type.name, by=done[number][1])
        for number, step in once.items()
        if number in done and done[number][0] > after
    ]
    begun = {one.activity_id for one in pending if one.state in _AT_WORK or one.attempt > ONCE}
    found += [
        RepeatedStep(id=step.activity_id, name=step.activity_type.name)
        for number, step in once.items()
        if number not in done and step.activity_id in begun
    ]
    return tuple(found)


def _once(
    events: Iterable[HistoryEvent],
) -> Iterable[tuple[int, ActivityTaskScheduledEventAttributes]]:
    """The steps that must run once, by the event id of their schedule."""
    for event in events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            step = event.activity_task_scheduled_event_attributes
            # Asking whether a host is there has no effect.
            probes = step.activity_type.name == READY_ACTIVITY
            if step.retry_policy.maximum_attempts == ONCE and not probes:
                yield event.event_id, step


def _ended(events: Iterable[HistoryEvent]) -> Mapping[int, tuple[int, str]]:
    """The event id of the end of each step that was begun, and who told of it, by its schedule."""
    begun, ended = set[int](), dict[int, tuple[int, str]]()
    for event in events:
        begun.add(event.activity_task_started_event_attributes.scheduled_event_id)
        for told in (
            event.activity_task_completed_event_attributes,
            event.activity_task_failed_event_attributes,
            event.activity_task_canceled_event_attributes,
        ):
            if told.scheduled_event_id:
                ended[told.scheduled_event_id] = (event.event_id, told.identity)
        if late := event.activity_task_timed_out_event_attributes.scheduled_event_id:
            ended[late] = (event.event_id, "")
    # A step that ended in its queue, for example by a cancellation, had no effect.
    return {step: end for step, end in ended.items() if step in begun}
