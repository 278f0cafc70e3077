"""Which steps a reset would run a second time, although they must run once."""

import pytest
from temporalio.api.common.v1 import ActivityType, RetryPolicy
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.history.v1 import (
    ActivityTaskCanceledEventAttributes,
    ActivityTaskCompletedEventAttributes,
    ActivityTaskFailedEventAttributes,
    ActivityTaskScheduledEventAttributes,
    ActivityTaskStartedEventAttributes,
    ActivityTaskTimedOutEventAttributes,
    HistoryEvent,
)
from temporalio.api.workflow.v1 import PendingActivityInfo

from perdure.domain.foundation.names import READY_ACTIVITY
from perdure.gateway.repeated_steps import repeated_steps

SCHEDULED = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
PAUSED = PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED
SOUND = 4  # the task to which the reset goes


def step(attempts: int = 1, name: str = "call_tool") -> HistoryEvent:
    return HistoryEvent(
        event_id=5,
        activity_task_scheduled_event_attributes=ActivityTaskScheduledEventAttributes(
            activity_id="s4",
            activity_type=ActivityType(name=name),
            retry_policy=RetryPolicy(maximum_attempts=attempts),
        ),
    )


BEGUN = HistoryEvent(
    event_id=6,
    activity_task_started_event_attributes=ActivityTaskStartedEventAttributes(scheduled_event_id=5),
)


def completed(by: str) -> HistoryEvent:
    told = ActivityTaskCompletedEventAttributes(scheduled_event_id=5, identity=by)
    return HistoryEvent(event_id=7, activity_task_completed_event_attributes=told)


def failed(by: str) -> HistoryEvent:
    told = ActivityTaskFailedEventAttributes(scheduled_event_id=5, identity=by)
    return HistoryEvent(event_id=7, activity_task_failed_event_attributes=told)


CANCELED = HistoryEvent(
    event_id=7,
    activity_task_canceled_event_attributes=ActivityTaskCanceledEventAttributes(
        scheduled_event_id=5, identity="w1"
    ),
)
LATE = HistoryEvent(
    event_id=7,
    activity_task_timed_out_event_attributes=ActivityTaskTimedOutEventAttributes(
        scheduled_event_id=5
    ),
)


@pytest.mark.parametrize(
    ("events", "told"),
    [
        pytest.param((), [], id="no step"),
        pytest.param((step(), BEGUN, completed("ops")), ["ended by ops"], id="by hand"),
        pytest.param((step(), BEGUN, failed("w1")), ["ended by w1"], id="failed"),
        pytest.param((step(), BEGUN, CANCELED), ["ended by w1"], id="cancelled"),
        pytest.param((step(), BEGUN, LATE), ["begun"], id="lost"),
        pytest.param((step(), LATE), [], id="never taken"),
        pytest.param((step(0), BEGUN, completed("ops")), [], id="may be repeated"),
        pytest.param((step(name=READY_ACTIVITY), BEGUN, completed("w1")), [], id="a probe"),
    ],
)
def test_ended_steps_since_the_task_run_again(
    events: tuple[HistoryEvent, ...], told: list[str]
) -> None:
    found = repeated_steps(events, (), after=SOUND)
    assert [str(one) for one in found] == [f"call_tool (s4, {how})" for how in told]
    assert repeated_steps(events, (), after=7) == ()


@pytest.mark.parametrize(
    ("state", "attempt", "again"),
    [(SCHEDULED, 1, False), (STARTED, 1, True), (SCHEDULED, 2, True), (PAUSED, 2, True)],
)
def test_steps_in_flight_run_again_if_they_were_begun(
    state: PendingActivityState.ValueType, attempt: int, again: bool
) -> None:
    pending = PendingActivityInfo(activity_id="s4", state=state, attempt=attempt)
    for after in (SOUND, 9):
        found = repeated_steps((step(),), (pending,), after=after)
        assert [str(one) for one in found] == (["call_tool (s4, begun)"] if again else [])
    assert repeated_steps((step(0),), (pending,), after=SOUND) == ()
