"""Where in its history a run was sound last: what this code still replays, up to which task.

A worker that held a run in memory gets further than one that replays it: what a task needed long
ago (a value that the store has lost, a step that other code made) may be gone. So the newest task
that succeeded is where to go back to only if the history up to there replays.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionSignaledEventAttributes
from temporalio.client import WorkflowHistory

from perdure.domain.foundation.errors import NotAllowed
from perdure.gateway.diagnostics import lost_value

# Why a history (JSON) of the named run does not replay; None where it does.
WhyNot = Callable[[str, bytes], Awaitable[str | None]]
Sent = WorkflowExecutionSignaledEventAttributes


@dataclass(frozen=True, slots=True)
class Sound:
    """Where the run was sound last, and what was sent to it since."""

    event: int
    sent: tuple[Sent, ...]


async def nothing_known(_run: str, _history: bytes) -> str | None:
    """Replays nothing: whether a task may be gone back to shows when the worker does."""
    return None


async def sound(run: str, events: Sequence[HistoryEvent], why_not: WhyNot) -> Sound:
    """The newest task that succeeded and that this code replays, and the signals after it.

    Raises:
        NotAllowed: there is none: the run cannot go on from anywhere.
    """
    done = completed(run, events)
    first, why = 0, await _fails_to(run, events, done[-1], why_not)
    if why is not None:
        # What a replay cannot pass at one task it does not pass at any later one.
        first, beyond = -1, len(done) - 1
        while beyond - first > 1:
            middle = (first + beyond) // 2
            found = await _fails_to(run, events, done[middle], why_not)
            if found is None:
                first = middle
            else:
                beyond, why = middle, found
        if first < 0:
            raise _nowhere(run, why)
        done = done[: first + 1]
    sent = [
        event.workflow_execution_signaled_event_attributes
        for event in events[done[-1] :]
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    ]
    return Sound(event=events[done[-1]].event_id, sent=tuple(sent))


def newest(run: str, events: Sequence[HistoryEvent]) -> int:
    """The event of the newest task that succeeded; raises `NotAllowed` where none did."""
    return events[completed(run, events)[-1]].event_id


def completed(run: str, events: Sequence[HistoryEvent]) -> list[int]:
    """Where in the history tasks succeeded, oldest first; raises `NotAllowed` where none did."""
    done = [
        number
        for number, event in enumerate(events)
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    ]
    if not done:
        raise NotAllowed(
            f"No task of the run {run} ever succeeded: its input or the worker's code is at fault.",
            cure="Read `perdure logs worker`; stop it in the Temporal Web UI and start it anew.",
        )
    return done


async def _fails_to(
    run: str, events: Sequence[HistoryEvent], done: int, why_not: WhyNot
) -> str | None:
    """Why the history does not replay up to a task, with what that task asked for."""
    end = done + 1
    while end < len(events) and _asked_in(events[end]) == events[done].event_id:
        end += 1
    return await why_not(run, WorkflowHistory(run, list(events[:end])).to_json().encode())


def _asked_in(event: HistoryEvent) -> int | None:
    """The task whose command made an event."""
    name = event.WhichOneof("attributes")
    return getattr(getattr(event, name), "workflow_task_completed_event_id", None) if name else None


def _nowhere(run: str, why: str) -> NotAllowed:
    lost = lost_value(why)
    if lost is not None:
        why = f"a value that it began with is kept in the blob {lost}, which is not in this store."
    return NotAllowed(
        f"The run {run} cannot go on from any of its tasks: {why}",
        cure="Put back what is missing, or run the version of Perdure that it was started with. "
        f"Where neither is to be had, end it (`temporal workflow terminate --workflow-id {run}`); "
        f"`perdure fork {run} --from-iteration N` goes on from what the store has of it "
        f"(`perdure history {run}` lists it).",
    )
