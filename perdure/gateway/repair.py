"""Repair of a run whose workflow tasks keep failing: reset it to its last good point.

A message that breaks the run's code fails every retry of the task, because it stays in the history.
A repair resets the run to its newest task that succeeded, then sends the later messages again one
by one, without those that break it. Steps in flight run again; finished steps stay. A step that
must run once and was begun since that task would run a second time: a person has to allow that.

The newest successful task is a good point only if the history up to it replays. A worker that had
the run in memory can get further than one that replays it: a value from long ago may be lost from
the store, or an early step may come from other code.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import uuid4

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, ResetReapplyExcludeType
from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionSignaledEventAttributes
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import (
    ResetWorkflowExecutionRequest,
    SignalWorkflowExecutionRequest,
)
from temporalio.client import WorkflowHistory

from perdure.domain.foundation.errors import (
    NoReadyWorker,
    NotAllowed,
    NotFound,
    PerdureError,
    ServiceUnavailable,
)
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.repeated_steps import RepeatedStep, repeated_steps
from perdure.gateway.run_problem import FAILING, UNKNOWN_TYPE, lost_value
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.types import QueueState, Repaired

# Returns why a history (JSON) of the named run does not replay; None if it does.
WhyNot = Callable[[str, bytes], Awaitable[str | None]]
Sent = WorkflowExecutionSignaledEventAttributes
# Asks a queue for its workers.
AskQueue = Callable[[QueueState], Awaitable[QueueState]]
# A message to send, and the id of its request.
Waiting = tuple[Sent, str]


@dataclass(frozen=True, slots=True)
class Sound:
    """The last good point of a run, and the messages sent since."""

    event: int
    sent: tuple[Sent, ...]


async def nothing_known(_run: str, _history: bytes) -> str | None:
    """Replay nothing: every successful task counts as a good point."""
    return None


async def find_sound_point(run: str, events: Sequence[HistoryEvent], why_not: WhyNot) -> Sound:
    """The newest successful task up to which this code replays, and the signals after it.

    Raises:
        NotAllowed: there is no such task, so the run cannot go on.
    """
    done = completed(run, events)
    first, why = 0, await _fails_to(run, events, done[-1], why_not)
    if why is not None:
        # If a replay fails up to one task, it fails up to every later one. So a binary search
        # works, and it is needed: a replay takes time, and there may be thousands of tasks.
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
    """The event id of the newest successful task; raises `NotAllowed` if there is none."""
    return events[completed(run, events)[-1]].event_id


def completed(run: str, events: Sequence[HistoryEvent]) -> list[int]:
    """Positions of successful tasks, oldest first; raises `NotAllowed` if there are none."""
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
    """Why the history does not replay up to a task and the events of its commands."""
    end = done + 1
    while end < len(events) and _asked_in(events[end]) == events[done].event_id:
        end += 1
    return await why_not(run, WorkflowHistory(run, list(events[:end])).to_json().encode())


def _asked_in(event: HistoryEvent) -> int | None:
    """The event id of the task whose command made this event."""
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


LOOKS = 40
PAUSE_S = 0.25
TOLD_CHARACTERS = 80


class Repairing:
    """Repairs runs only through the server, since their workers cannot answer."""

    def __init__(
        self, *, server: TemporalGateway, ask: AskQueue, why_not: WhyNot = nothing_known
    ) -> None:
        self._server = server
        self._ask = ask
        self._why_not = why_not

    async def repair(self, run: str, *, repeat: bool = False) -> Repaired:
        """See `Gateway.repair`."""
        look = await self._require_failing(run)
        # Check before changing anything: a reset that does not help would only undo work.
        events = await self._events(run, look)
        last = await find_sound_point(run, events, self._why_not)
        if not repeat:
            _require_once(run, repeated_steps(events, await self._steps(look), after=last.event))
        await self._require_worker(look)
        # The reset takes the messages out of the history; from then on only this list has them.
        # With its own request id, the server takes a message once, however often it is sent.
        waiting = [(sent, uuid4().hex) for sent in last.sent]
        left_out: list[str] = []
        await self._reset(run, look.execution, last.event)
        try:
            await self._take_up(run, waiting, left_out)
        # Ctrl-C too: what is not sent by then is lost.
        except BaseException as error:
            await self._send_rest(run, waiting)
            if left_out or waiting:
                raise _broken_off(error, left_out, [sent for sent, _ in waiting]) from error
            raise
        return Repaired(
            run=run,
            event=last.event,
            sent_again=len(last.sent) - len(left_out),
            left_out=tuple(left_out),
        )

    async def _take_up(self, run: str, waiting: list[Waiting], left_out: list[str]) -> None:
        """Send the messages one at a time, and take back each one that breaks the run."""
        if not await self._wait_for_progress(run):
            raise NotAllowed(
                f"The run {run} fails from its last sound task on, without any message since: its "
                "code cannot go on from there.",
                cure="Run the version of Perdure that it was started with, or take it up from a "
                f"finished iteration (`perdure history {run}` lists them): "
                f"`perdure fork {run} --from-iteration N`. It is not lost.",
            )
        while waiting:
            at = await self._length(run)
            await self._send(run, *waiting[0])
            # Only now: until the server has it, this list alone does.
            sent, _ = waiting.pop(0)
            if await self._wait_for_progress(run):
                continue
            await self._take_back(run, at)
            left_out.append(_named(sent))
            # The next message is judged by whether the run goes on, so it has to do so first.
            await self._wait_for_progress(run)

    async def _send_rest(self, run: str, waiting: list[Waiting]) -> None:
        """Send what is left without looking; the server keeps it, also without a worker."""
        for _ in range(LOOKS):
            try:
                while waiting:
                    await self._send(run, *waiting[0])
                    del waiting[0]
            except ServiceUnavailable:
                await asyncio.sleep(PAUSE_S)
            except PerdureError:
                return  # the run has ended, and takes none
            else:
                return

    async def _require_worker(self, look: ExecutionInfo) -> None:
        state = await self._ask(QueueState(queue=look.queue, serves="loops"))
        if not state.served:
            raise NoReadyWorker(
                f"Nobody works on the queue {look.queue} of the run {look.id}. Nothing was "
                "changed.",
                cure=f"{state.cure} Then repair it.",
            )

    async def _require_failing(self, run: str) -> ExecutionInfo:
        look = await self._server.look(run)
        if look is None:
            raise NotFound(f"There is no run {run}.", cure="`perdure list` lists all runs.")
        if not look.open:
            raise NotAllowed(
                f"The run {run} has ended; there is nothing to repair.",
                cure=f"`perdure retry {run}` goes on with one that failed.",
            )
        if look.trouble is None or not look.trouble.mark.startswith(FAILING):
            raise NotAllowed(
                f"No task of the run {run} fails; there is nothing to repair.",
                cure=f"`perdure status {run}` says what it waits for.",
            )
        if look.trouble.mark.startswith(f"{FAILING}{UNKNOWN_TYPE}"):
            # The history is sound, so a reset would not help.
            raise NotAllowed(look.trouble.found, cure=look.trouble.cure)
        return look

    async def _events(self, run: str, look: ExecutionInfo) -> Sequence[HistoryEvent]:
        client = await self._server.client()
        with self._server.translate_errors():
            handle = client.get_workflow_handle(run, run_id=look.execution)
            return (await handle.fetch_history()).events

    async def _steps(self, look: ExecutionInfo) -> Sequence[PendingActivityInfo]:
        """The steps in flight of an execution."""
        client = await self._server.client()
        with self._server.translate_errors():
            described = await client.get_workflow_handle(look.id, run_id=look.execution).describe()
        return described.raw_description.pending_activities

    async def _length(self, run: str) -> int:
        """The event id to return to: that of the newest successful task."""
        look = await self._server.look(run)
        if look is None:
            raise NotFound(f"There is no run {run}.", cure="`perdure list` lists all runs.")
        return newest(run, await self._events(run, look))

    async def _take_back(self, run: str, event: int) -> None:
        """Undo a message that the run could not take."""
        look = await self._server.look(run)
        if look is not None and look.open:
            await self._reset(run, look.execution, event)

    async def _reset(self, run: str, execution: str, event: int) -> None:
        client = await self._server.client()
        asked = ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run, run_id=execution),
            reason="perdure repair: its tasks kept failing",
            workflow_task_finish_event_id=event,
            request_id=uuid4().hex,
            # The server would send signals again by itself, the bad one too. Updates are kept: they
            # are in the history only if the code accepted them.
            reset_reapply_exclude_types=[ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL],
        )
        # If only the answer is lost, the messages are out of the history already, and who gives up
        # loses them. A second reset does no harm, as it leads to the same task.
        for left in reversed(range(LOOKS)):
            try:
                with self._server.translate_errors():
                    await client.workflow_service.reset_workflow_execution(asked)
            except ServiceUnavailable:
                if not left:
                    raise
                await asyncio.sleep(PAUSE_S)
            else:
                return

    async def _send(self, run: str, sent: Sent, request: str) -> None:
        client = await self._server.client()
        with self._server.translate_errors():
            await client.workflow_service.signal_workflow_execution(
                SignalWorkflowExecutionRequest(
                    namespace=client.namespace,
                    workflow_execution=WorkflowExecution(workflow_id=run),
                    signal_name=sent.signal_name,
                    input=sent.input,
                    header=sent.header,
                    identity=sent.identity,
                    request_id=request,
                )
            )

    async def _wait_for_progress(self, run: str) -> bool:
        """Wait until the newest task succeeds or the run ends; False if the task fails."""
        for _ in range(LOOKS):
            try:
                look = await self._server.look(run)
            # A server that is away for a moment says nothing about the run.
            except PerdureError:
                look = None
            if look is not None and not look.open:
                return True
            if look is not None and look.trouble and look.trouble.mark.startswith(FAILING):
                return False
            if look is not None and not look.task_pending:
                return True
            await asyncio.sleep(PAUSE_S)
        raise NotAllowed(
            f"No worker takes the tasks of the run {run}.",
            cure="Start one with `perdure worker` (or `perdure up --detach`). If the tasks fail "
            "then, repair it again.",
        )


def _require_once(run: str, steps: Sequence[RepeatedStep]) -> None:
    """Refuse to run steps again that may have had their effect.

    Raises:
        NotAllowed: there are such steps.
    """
    if not steps:
        return
    raise NotAllowed(
        f"A repair of the run {run} goes back to before these steps and runs them again, and what "
        f"they did may happen twice: {', '.join(map(str, steps))}.",
        cure=f"Look at what they did. If it may happen again: `perdure repair {run} --repeat`. If "
        f"not, end the run (`temporal workflow terminate --workflow-id {run}`), and go on from a "
        f"finished iteration: `perdure fork {run} --from-iteration N`.",
    )


def _broken_off(
    error: BaseException, left_out: Sequence[str], unsent: Sequence[Sent]
) -> PerdureError:
    """The error of a repair that was broken off, with the messages that the run did not get."""
    ours = isinstance(error, PerdureError)
    told = [error.message if ours else "The repair was broken off."]
    if left_out:
        told.append(f"Left out, because the code cannot take them: {'; '.join(left_out)}.")
    if unsent:
        told.append(f"Not sent again: {'; '.join(map(_named, unsent))}.")
    kind = ServiceUnavailable if isinstance(error, ServiceUnavailable) else NotAllowed
    again = "Send anew what the run has to know."
    return kind(" ".join(told), cure=f"{error.cure} {again}" if ours else again)


def _named(sent: Sent) -> str:
    """A message that was left out, so that a person can correct and send it."""
    # Encrypted payloads stay encrypted here; then only the name of the signal helps.
    values = [payload.data.decode(errors="replace") for payload in sent.input.payloads]
    return f"{sent.signal_name} {' '.join(values)}".strip()[:TOLD_CHARACTERS]
