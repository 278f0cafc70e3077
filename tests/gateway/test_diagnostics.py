import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.api.enums.v1 import (
    EventType,
    PendingActivityState,
    TimeoutType,
    WorkflowTaskFailedCause,
)
from temporalio.api.failure.v1 import Failure, ServerFailureInfo, TimeoutFailureInfo
from temporalio.api.history.v1 import (
    HistoryEvent,
    WorkflowTaskFailedEventAttributes,
    WorkflowTaskTimedOutEventAttributes,
)
from temporalio.api.workflow.v1 import PendingActivityInfo
from waiting import eventually

from perdure.domain.run.messages import Stop
from perdure.gateway.diagnostics import failing_code, repeated_step, reported_trouble
from tests.gateway.tiny import Site, spec

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REFUSED = "The model provider was not reached (connection refused)."
BROKEN = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE
UNHANDLED = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND
SIGNAL = HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED)
DONE = HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)


def step(
    *,
    attempt: int = 2,
    of: int = 8,
    failure: Failure | None = None,
    waits: float | None = 4,
    name: str = "1",
) -> PendingActivityInfo:
    state = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    info = PendingActivityInfo(
        activity_id=name,
        attempt=attempt,
        maximum_attempts=of,
        state=state if waits is not None else PendingActivityState.PENDING_ACTIVITY_STATE_STARTED,
        last_failure=failure or Failure(message=REFUSED),
    )
    if waits is not None:
        info.next_attempt_schedule_time.FromDatetime(NOW + timedelta(seconds=waits))
    return info


def failed(message: str, cause: WorkflowTaskFailedCause.ValueType = BROKEN) -> HistoryEvent:
    return HistoryEvent(
        event_type=EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
        workflow_task_failed_event_attributes=WorkflowTaskFailedEventAttributes(
            cause=cause, failure=Failure(message=message)
        ),
    )


def silent(kind: TimeoutType.ValueType) -> Failure:
    return Failure(message="x", timeout_failure_info=TimeoutFailureInfo(timeout_type=kind))


TOO_LONG = Failure(
    message="Failure exceeds size limit.",
    server_failure_info=ServerFailureInfo(),
    cause=Failure(message=REFUSED),
)
WHY = "the model provider was not reached (connection refused)"


@pytest.mark.parametrize(
    ("pending", "text"),
    [
        pytest.param([step()], f"attempt 2 of 8: {WHY}; next in 4 s", id="waits"),
        pytest.param([step(of=0)], f"attempt 2: {WHY}; next in 4 s", id="without a limit"),
        pytest.param([step(waits=None)], f"attempt 2 of 8: {WHY}; now under way", id="under way"),
        pytest.param([step(waits=-1)], f"attempt 2 of 8: {WHY}; next now", id="overdue"),
        pytest.param(
            [step(), step(attempt=3, name="2")],
            f"attempt 3 of 8: {WHY}; next in 4 s (and 1 more like it)",
            id="two steps",
        ),
        pytest.param(
            [step(failure=silent(TimeoutType.TIMEOUT_TYPE_HEARTBEAT))],
            "attempt 2 of 8: its worker fell silent; next in 4 s",
            id="silent worker",
        ),
        pytest.param(
            [step(failure=Failure(message="tonic::transport::Error(Os { code: 111, kind: X })"))],
            "attempt 2 of 8: connection refused; next in 4 s",
            id="no insides",
        ),
        pytest.param(
            [step(failure=Failure(message="JSONDecodeError: bad"))],
            "attempt 2 of 8: JSONDecodeError: bad; next in 4 s",
            id="a type keeps its name",
        ),
        pytest.param(
            [step(failure=TOO_LONG)], f"attempt 2 of 8: {WHY}; next in 4 s", id="wrapped, too long"
        ),
    ],
)
def test_a_repeated_step_is_told(pending: list[PendingActivityInfo], text: str) -> None:
    trouble = repeated_step(pending, now=NOW)
    assert trouble is not None
    assert trouble.text == text


def test_a_first_attempt_is_no_trouble() -> None:
    assert repeated_step([step(attempt=1)], now=NOW) is None
    assert repeated_step([], now=NOW) is None


def test_one_attempt_is_one_trouble_and_the_next_another() -> None:
    waiting = repeated_step([step(waits=4)], now=NOW)
    later = repeated_step([step(waits=2)], now=NOW)
    third = repeated_step([step(attempt=3)], now=NOW)
    assert waiting is not None
    assert later is not None
    assert third is not None
    assert waiting.mark == later.mark
    assert waiting.mark != third.mark


@pytest.mark.parametrize(
    ("newest", "reported", "why"),
    [
        pytest.param([failed("no such name")], [], "(no such name)", id="failed"),
        pytest.param([SIGNAL, failed("no such name")], [], "(no such name)", id="before a signal"),
        pytest.param(
            [SIGNAL],
            ["category=WorkflowTaskFailed", "cause=WorkflowTaskFailedCauseNonDeterministicError"],
            "(NonDeterministicError)",
            id="reported alone",
        ),
    ],
)
def test_failing_code_is_told_with_its_cure(
    newest: list[HistoryEvent], reported: list[str], why: str
) -> None:
    trouble = failing_code(newest, run="r1", attempt=3, reported=reported)
    assert trouble is not None
    assert why in trouble.text
    assert "attempt 3" in trouble.text
    assert "perdure logs worker" in trouble.text
    assert "`perdure repair r1`" in trouble.text


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("PerdureIteration", "create --namespace shop --name PerdureIteration --type Int`"),
        ("TheirOwn", "`perdure repair r1`"),
    ],
)
def test_a_search_attribute_that_somebody_removed_is_told_with_what_adds_it(
    name: str, cure: str
) -> None:
    said = f"Namespace shop has no mapping defined for search attribute {name}"
    trouble = failing_code([failed(said)], run="r1", attempt=3)
    assert trouble is not None
    assert cure in trouble.text
    assert name in trouble.text


def test_an_attribute_of_another_type_is_told_with_what_gives_it_ours() -> None:
    said = "BadSearchAttributes: invalid value for search attribute PerdureScore of type Keyword: 0"
    trouble = failing_code([failed(said)], run="r1", attempt=3, namespace="my shop")
    assert trouble is not None
    assert "remove --namespace 'my shop' --yes --name PerdureScore &&" in trouble.text
    assert "--name PerdureScore --type Double`" in trouble.text
    assert "perdure repair" not in trouble.text


def test_a_task_that_nobody_sealed_is_told_with_how_to_send_it_again() -> None:
    said = "A value came unencrypted although a key is set, so it was not used."
    trouble = failing_code([failed(said)], run="r1", attempt=3)
    assert trouble is not None
    assert "`temporal workflow terminate --workflow-id r1`" in trouble.text
    assert "PERDURE_ENCRYPTION_PLAIN=read" in trouble.text
    assert "perdure repair" not in trouble.text


def test_many_failed_attempts_are_told_although_what_came_since_hides_why() -> None:
    flooded = [SIGNAL] * 20
    assert failing_code(flooded, run="r1", attempt=2) is None
    trouble = failing_code(flooded, run="r1", attempt=3)
    assert trouble is not None
    assert "in the worker's log" in trouble.text


def test_a_list_knows_what_the_server_reports() -> None:
    reported = ["category=WorkflowTaskFailed", "cause=WorkflowTaskFailedCauseNonDeterministicError"]
    trouble = reported_trouble("r1", reported)
    assert trouble is not None
    assert "(NonDeterministicError): `perdure status r1`" in trouble.text
    assert reported_trouble("r1", []) is None


@pytest.mark.parametrize(
    "newest",
    [
        pytest.param([], id="nothing"),
        pytest.param([DONE, failed("long ago")], id="healed"),
        pytest.param([failed("UnhandledCommand", UNHANDLED)], id="housekeeping"),
    ],
)
def test_tasks_that_only_come_again_are_no_trouble(newest: list[HistoryEvent]) -> None:
    assert failing_code(newest, run="r1", attempt=2) is None


TIMED_OUT = HistoryEvent(
    event_type=EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
    workflow_task_timed_out_event_attributes=WorkflowTaskTimedOutEventAttributes(
        timeout_type=TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE
    ),
)
OF_TIME = ["category=WorkflowTaskTimedOut", "cause=WorkflowTaskTimedOutCauseStartToClose"]


@pytest.mark.parametrize(
    ("newest", "reported", "unfetched", "expected"),
    [
        pytest.param([TIMED_OUT], [], True, None, id="its worker died"),
        pytest.param([SIGNAL] * 20, OF_TIME, True, None, id="its workers died"),
        pytest.param([SIGNAL] * 20, [], True, None, id="nobody knows, and nobody is there"),
        pytest.param([TIMED_OUT], [], False, "did not finish a task in time", id="too slow"),
        pytest.param([SIGNAL], OF_TIME, False, "did not finish a task in time", id="reported"),
        pytest.param([failed("no name")], [], True, "no name", id="failed, then no worker"),
    ],
)
def test_a_run_that_waits_for_a_worker_has_no_failing_code(
    newest: list[HistoryEvent], reported: list[str], unfetched: bool, expected: str | None
) -> None:
    trouble = failing_code(newest, run="r1", attempt=3, reported=reported, unfetched=unfetched)
    assert (trouble is None) == (expected is None)
    assert expected is None or (trouble and expected in trouble.text)


@pytest.mark.long
async def test_code_that_fails_is_told_while_following_and_in_the_status(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec("broken"))
    told: list[str] = []
    following = asyncio.create_task(_follow(site, run, told))
    await eventually(lambda: _has(told))
    status = await site.gateway.status(run)
    await site.client.get_workflow_handle(run).terminate()
    await following

    assert [text for text in told if "the code is broken on purpose" in text] == told
    assert len(told) == 1
    assert status.trouble is not None
    assert "the code is broken on purpose" in status.trouble
    assert "perdure logs worker" in status.trouble


async def test_a_step_that_is_tried_again_is_told_once_for_each_attempt(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec("retry"))
    told: list[str] = []
    following = asyncio.create_task(_follow(site, run, told))
    await eventually(lambda: _has(told))
    status = await site.gateway.status(run)
    await site.gateway.verb(run, Stop())
    await following
    ended = await site.gateway.status(run)

    assert told[0].startswith(f"attempt 2 of 3: {WHY}; next in ")
    assert len(told) == len(set(told))
    assert (status.source, status.trouble is not None) == ("run", True)
    assert ended.trouble is None


async def _follow(site: Site, run: str, told: list[str]) -> None:
    async for _event in site.gateway.events(run, on_trouble=told.append):
        pass


async def _has(told: list[str]) -> bool:
    return bool(told)
