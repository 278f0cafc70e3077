"""What keeps an open run from making progress, according to the server."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from temporalio.api.common.v1 import WorkflowExecution as ExecutionName
from temporalio.api.enums.v1 import (
    EventType,
    PendingActivityState,
    TimeoutType,
    WorkflowTaskFailedCause,
)
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryReverseRequest,
)
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription
from temporalio.common import SearchAttributeKey
from temporalio.converter import DataConverter

from perdure.domain.foundation.plain_text import said_in_words
from perdure.gateway.dispatch import is_queued_long
from perdure.gateway.run_problem import FAILING, RunProblem, known_cause
from perdure.gateway.server_pauses import (
    PAUSED_THERE,
    PAUSES,
    is_paused,
    paused_execution,
    paused_steps,
    paused_types,
    unpause_run,
)
from perdure.gateway.store_waits import (
    converter_for,
    in_words,
    made_again,
    opened_failure,
    waiting_steps,
)

REPORTED = "TemporalReportedProblems"
STORE = "store"
STORE_BACK = "the store answers again, and the run goes on"
TOO_SLOW = "the worker did not finish a task in time"
_UNDECODED = "Failed decoding arguments"  # the SDK's words; the reason is in the cause
NEWEST_EVENTS = 20
NEWEST_STEPS = 200  # enough: a run that waits for its store schedules few steps more
CERTAIN_ATTEMPTS = 3  # a workflow task that failed so often did not fail by accident
MESSAGE_CHARACTERS = 300
_REPORTED = SearchAttributeKey.for_keyword_list(REPORTED)
_PAUSES = SearchAttributeKey.for_keyword_list(PAUSES)
PAUSED_STEPS = "paused steps"
# Failures that are part of the server's normal work; the next attempt of the task succeeds.
_HARMLESS = frozenset(
    {
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_UPDATE,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FAILOVER_CLOSE_COMMAND,
    }
)
_TIMEOUTS = {
    TimeoutType.TIMEOUT_TYPE_HEARTBEAT: "its worker fell silent",
    TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE: "it took too long",
    TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_START: "no worker took it in time",
    TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE: "it took too long",
}


async def trouble_of(
    client: Client, described: WorkflowExecutionDescription, *, now: datetime
) -> RunProblem | None:
    """The problem of one run: a pause at the server, its code, then its store, then its steps."""
    converter, pending = converter_for(client, described.id), described.raw_description
    trouble = pause_problem(pending) or await _code_of(client, described, converter)
    if trouble is not None:
        return trouble
    steps = [await _opened(step, converter) for step in pending.pending_activities]
    begun = await _begun(client, described, made_again(steps))
    waiting = await waiting_steps(steps, converter, begun)
    if waiting:
        # One mark for all steps and attempts, so that people are told once.
        return RunProblem(mark=STORE, found=in_words(waiting, now=now))
    return repeated_step(steps, now=now)


def pause_problem(described: DescribeWorkflowExecutionResponse) -> RunProblem | None:
    """That somebody paused a run, or steps of it, at the server itself."""
    run = described.workflow_execution_info.execution.workflow_id
    if (whole := paused_execution(described)) is not None:
        return RunProblem(mark=PAUSED_THERE, found=whole, cure=unpause_run(run))
    steps = described.pending_activities
    if (some := paused_steps(steps)) is not None:
        step = next(one.activity_id for one in steps if one.paused)
        cure = (
            f"`temporal activity unpause --workflow-id {run} --activity-id {step}` lets it go on."
        )
        return RunProblem(mark=PAUSED_THERE, found=some, cure=cure)
    return None


async def _begun(
    client: Client, described: WorkflowExecutionDescription, steps: frozenset[str]
) -> dict[str, datetime]:
    """When these steps were scheduled, by the end of the history, which has each step once."""
    if not steps:
        return {}
    newest = await _end_of_history(client, described, events=NEWEST_STEPS)
    scheduled = [(event, event.activity_task_scheduled_event_attributes) for event in newest]
    return {
        asked.activity_id: event.event_time.ToDatetime(tzinfo=UTC)
        for event, asked in scheduled
        if asked.activity_id in steps
    }


async def _end_of_history(
    client: Client, described: WorkflowExecutionDescription, *, events: int
) -> Sequence[HistoryEvent]:
    found = await client.workflow_service.get_workflow_execution_history_reverse(
        GetWorkflowExecutionHistoryReverseRequest(
            namespace=client.namespace,
            execution=ExecutionName(workflow_id=described.id, run_id=described.run_id),
            maximum_page_size=events,
        )
    )
    return found.history.events


async def _code_of(
    client: Client, described: WorkflowExecutionDescription, converter: DataConverter
) -> RunProblem | None:
    raw = described.raw_description
    # Most looks end here, without a request for the history: a first attempt has not failed.
    if not raw.HasField("pending_workflow_task") or raw.pending_workflow_task.attempt <= 1:
        return None
    newest = await _end_of_history(client, described, events=NEWEST_EVENTS)
    for event in newest:
        failed = event.workflow_task_failed_event_attributes
        if failed.HasField("failure"):
            failed.failure.CopyFrom(await opened_failure(failed.failure, converter))
    return failing_code(
        newest,
        run=described.id,
        namespace=client.namespace,
        attempt=raw.pending_workflow_task.attempt,
        reported=described.typed_search_attributes.get(_REPORTED) or (),
        unfetched=is_queued_long(raw.pending_workflow_task, datetime.now(UTC)),
    )


async def _opened(step: PendingActivityInfo, converter: DataConverter) -> PendingActivityInfo:
    if not step.HasField("last_failure"):
        return step
    copy = PendingActivityInfo()
    copy.CopyFrom(step)
    copy.last_failure.CopyFrom(await opened_failure(step.last_failure, converter))
    return copy


def failing_code(
    newest: Iterable[HistoryEvent],
    *,
    run: str,
    attempt: int,
    namespace: str = "default",
    reported: Sequence[str] = (),
    unfetched: bool = False,
) -> RunProblem | None:
    """The problem of a run whose workflow code fails again and again.

    Args:
        newest: the end of its history, the newest event first.
        run: its id.
        attempt: the attempt of the pending workflow task.
        namespace: that of the run, for commands.
        reported: the values of the server's search attribute on problems. It is needed because
            later attempts write no event to the history.
        unfetched: whether no worker takes the task. A dead worker leaves the same trace as a slow
            one; then the run only waits for a worker, and its code is sound.
    """
    why = _task_failure(newest) or _reported(reported)
    if unfetched and why in {None, TOO_SLOW}:
        return None
    if why is None and attempt >= CERTAIN_ATTEMPTS:
        why = "why is in the worker's log"  # newer events hide the one with the reason
    if why is None:
        return None
    return known_cause(why, run=run, namespace=namespace) or RunProblem(
        mark=f"{FAILING}{why}",
        found=f"the run cannot go on: its code failed in the worker ({why}); attempt {attempt} "
        "follows, and the run is not lost.",
        cure=f"Read `perdure logs worker`; if it stays so: `perdure repair {run}`.",
    )


def listed_trouble(listed: WorkflowExecution) -> RunProblem | None:
    """The problem of an open execution of a list, as far as a list knows."""
    if is_paused(listed):
        return RunProblem(mark=PAUSED_THERE, found=f"{PAUSED_THERE}.", cure=unpause_run(listed.id))
    if steps := paused_types(listed.typed_search_attributes.get(_PAUSES) or ()):
        # Not the mark of a paused run: this one hears and answers.
        named = ", ".join(steps)
        return RunProblem(
            mark=PAUSED_STEPS,
            found=f"{PAUSED_THERE}: {named}; `perdure status {listed.id}` says how it goes on",
        )
    return reported_trouble(listed.id, listed.typed_search_attributes.get(_REPORTED))


def reported_trouble(run: str, problems: Sequence[str] | None) -> RunProblem | None:
    """The problem that the server reports in a list, after some failed attempts."""
    why = _reported(problems or ())
    if why is None:
        return None
    found = f"its code keeps failing in the worker ({why}): `perdure status {run}` says how"
    return RunProblem(mark=f"{FAILING}{why}", found=found)


def repeated_step(pending: Iterable[PendingActivityInfo], *, now: datetime) -> RunProblem | None:
    """The problem of a run whose steps failed and are retried."""
    troubled = [step for step in pending if step.attempt > 1 and step.HasField("last_failure")]
    if not troubled:
        return None
    worst = max(troubled, key=lambda step: step.attempt)
    limit = f" of {worst.maximum_attempts}" if worst.maximum_attempts else ""
    others = len(troubled) - 1
    more = f" (and {others} more like it)" if others else ""
    text = f"attempt {worst.attempt}{limit}: {_why(worst.last_failure)}{_next(worst, now)}{more}"
    # Sorted, since the order in which the server lists them means nothing.
    marks = sorted(f"{step.activity_id}/{step.attempt}" for step in troubled)
    return RunProblem(mark=" ".join(marks), found=text)


def _task_failure(newest: Iterable[HistoryEvent]) -> str | None:
    for event in newest:
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
                failed = event.workflow_task_failed_event_attributes
                if failed.cause in _HARMLESS:
                    return None
                return _why(failed.failure)
            case EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
                timed_out = event.workflow_task_timed_out_event_attributes.timeout_type
                # The other kind: the worker that has the run in its cache did not fetch the task.
                if timed_out == TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE:
                    return TOO_SLOW
            case EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                return None
            case _:
                continue
    return None


def _reported(problems: Sequence[str]) -> str | None:
    """The cause in the values of the attribute, such as `cause=WorkflowTaskFailedCause…`."""
    causes = (value.partition("cause=")[2] for value in problems if value.startswith("cause="))
    cause = next(causes, None)
    if cause is None or cause.startswith("WorkflowTaskTimedOut"):
        return cause and TOO_SLOW
    return cause.removeprefix("WorkflowTaskFailedCause")


def _why(failure: Failure) -> str:
    # If a failure is too long, the server wraps it in one of its own and shortens the cause.
    wrapped = failure.HasField("server_failure_info") or failure.message == _UNDECODED
    if wrapped and failure.HasField("cause"):
        return _why(failure.cause)
    if failure.HasField("timeout_failure_info"):
        return _TIMEOUTS.get(failure.timeout_failure_info.timeout_type, "it took too long")
    said = " ".join(failure.message.split()) or "no reason was given"
    words = said_in_words(said, otherwise="it failed inside")[:MESSAGE_CHARACTERS]
    # A sentence of ours is put into another, so it begins in lower case; type names do not.
    first, _, _ = words.partition(" ")
    return words[0].lower() + words[1:] if first.istitle() and first.isalpha() else words


def _next(step: PendingActivityInfo, now: datetime) -> str:
    if step.state != PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED:
        return "; now under way"
    if not step.HasField("next_attempt_schedule_time"):
        return ""
    due = step.next_attempt_schedule_time.ToDatetime(tzinfo=UTC)
    seconds = round((due - now).total_seconds())
    return f"; next in {seconds} s" if seconds > 0 else "; next now"
