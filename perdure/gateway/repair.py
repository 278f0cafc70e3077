"""Repairing a run whose tasks keep failing: back to where it was sound, and what was sent since.

A message that the run's code cannot take fails its task each time it is tried, for it stays in the
history. A repair resets the run to its newest task that succeeded, without the messages since, and
sends those again, one by one, leaving out what the run cannot take. A step that was in flight is
done again; what had ended before stays.
"""

import asyncio
from collections.abc import Sequence
from uuid import uuid4

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import ResetReapplyExcludeType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import (
    ResetWorkflowExecutionRequest,
    SignalWorkflowExecutionRequest,
)

from perdure.domain.foundation.errors import NotAllowed, NotFound, PerdureError
from perdure.gateway.diagnostics import FAILING, UNKNOWN_TYPE
from perdure.gateway.soundness import Sent, WhyNot, newest, nothing_known, sound
from perdure.gateway.temporal_gateway import ExecutionInfo, TemporalGateway
from perdure.gateway.types import Repaired

LOOKS = 40
PAUSE_S = 0.25
TOLD_CHARACTERS = 80


class Repairing:
    """Repairs runs, through the server alone: their worker cannot answer."""

    def __init__(self, *, server: TemporalGateway, why_not: WhyNot = nothing_known) -> None:
        self._server = server
        self._why_not = why_not

    async def repair(self, run: str) -> Repaired:
        """See `Gateway.repair`."""
        look = await self._failing(run)
        # Found out before anything is changed: a reset that helps nobody undoes work.
        last = await sound(run, await self._events(run, look), self._why_not)
        await self._reset(run, look.execution, last.event)
        if not await self._moves(run):
            raise NotAllowed(
                f"The run {run} fails from its last sound task on, without any message since: its "
                "code cannot go on from there.",
                cure="Run the version of Perdure that it was started with, or take it up from a "
                f"finished iteration (`perdure history {run}` lists them): "
                f"`perdure fork {run} --from-iteration N`. It is not lost.",
            )
        left_out: list[str] = []
        for sent in last.sent:
            at = await self._length(run)
            await self._send(run, sent)
            if await self._moves(run):
                continue
            left_out.append(_named(sent))
            await self._take_back(run, at)
        return Repaired(
            run=run,
            event=last.event,
            sent_again=len(last.sent) - len(left_out),
            left_out=tuple(left_out),
        )

    async def _failing(self, run: str) -> ExecutionInfo:
        look = await self._server.look(run)
        if look is None:
            raise NotFound(f"There is no run {run}.", cure="`perdure list` shows what there is.")
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
            # Nothing in its history is at fault: to go back in it would help nobody.
            raise NotAllowed(look.trouble.found, cure=look.trouble.cure)
        return look

    async def _events(self, run: str, look: ExecutionInfo) -> Sequence[HistoryEvent]:
        client = await self._server.client()
        with self._server.translated():
            handle = client.get_workflow_handle(run, run_id=look.execution)
            return (await handle.fetch_history()).events

    async def _length(self, run: str) -> int:
        """The event to come back to: the newest task that succeeded."""
        look = await self._server.look(run)
        if look is None:
            raise NotFound(f"There is no run {run}.")
        return newest(run, await self._events(run, look))

    async def _take_back(self, run: str, event: int) -> None:
        """Undo a message that the run could not take."""
        look = await self._server.look(run)
        if look is not None and look.open:
            await self._reset(run, look.execution, event)
            await self._moves(run)

    async def _reset(self, run: str, execution: str, event: int) -> None:
        client = await self._server.client()
        with self._server.translated():
            await client.workflow_service.reset_workflow_execution(
                ResetWorkflowExecutionRequest(
                    namespace=client.namespace,
                    workflow_execution=WorkflowExecution(workflow_id=run, run_id=execution),
                    reason="perdure repair: its tasks kept failing",
                    workflow_task_finish_event_id=event,
                    request_id=uuid4().hex,
                    # Updates are in the history only when the code took them: they stay.
                    reset_reapply_exclude_types=[
                        ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL
                    ],
                )
            )

    async def _send(self, run: str, sent: Sent) -> None:
        client = await self._server.client()
        with self._server.translated():
            await client.workflow_service.signal_workflow_execution(
                SignalWorkflowExecutionRequest(
                    namespace=client.namespace,
                    workflow_execution=WorkflowExecution(workflow_id=run),
                    signal_name=sent.signal_name,
                    input=sent.input,
                    header=sent.header,
                    identity=sent.identity,
                    request_id=uuid4().hex,
                )
            )

    async def _moves(self, run: str) -> bool:
        """Whether the run's newest task succeeds; it may end by what was sent."""
        for _ in range(LOOKS):
            try:
                look = await self._server.look(run)
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
            cure="Start one with `perdure worker` (or `perdure up --detach`), and repair it then.",
        )


def _named(sent: Sent) -> str:
    """A message that was left out, for a person to send it right."""
    values = [payload.data.decode(errors="replace") for payload in sent.input.payloads]
    return f"{sent.signal_name} {' '.join(values)}".strip()[:TOLD_CHARACTERS]
