"""The questions of all open runs that wait for a person."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import Client
from temporalio.exceptions import TemporalError

from perdure.domain.foundation.errors import NotAllowed, PerdureError, StoreAway, StoreError
from perdure.domain.foundation.names import OPEN_EXECUTION, loops_queue
from perdure.domain.ports import RecordStore
from perdure.domain.run.gates import Gate
from perdure.gateway.ask_many import AskMany, Present
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.run_words import with_words
from perdure.gateway.server_pauses import PAUSED_THERE
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.types import OpenGate, OpenGates
from perdure.gateway.visibility import OURS, executions_of, quoted

GATES = list[Gate]
Answer = tuple[Gate, ...] | PerdureError
AT_ONCE = 16
"""More at once would only wait for each other at the worker, and some of them too long."""
ANSWERS_WITHIN = timedelta(seconds=5)
KEPT_S = 0.01
"""For how long an answer is kept, for each run that waits: a hundred are asked in a second."""
WAITING = f"{OPEN_EXECUTION} AND {OURS} AND PerdureLifecycle IN ('waiting', 'paused')"


@dataclass(frozen=True, slots=True)
class _Asked:
    """One run that was asked, until when its answer is kept, and that answer."""

    execution: str
    until: float
    answer: asyncio.Task[Answer]


class GateReader:
    """Asks each waiting run for its open questions.

    Pages and programs that list the questions of a process ask again every few seconds. With very
    many of them that would leave the workers no time for anything else, so answers are kept
    for a moment that grows with their number. A run that was answered is no longer listed as
    waiting; one that this process sent something is asked again at once.

    Args:
        server: lists and asks the runs.
        records: of the installation.
        present: whether a worker answers on a queue.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        *,
        server: TemporalGateway,
        records: RecordStore,
        present: Present,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._records = records
        self._present = present
        self._clock = clock
        self._asked: dict[str, _Asked] = {}

    async def read(self) -> OpenGates:
        """The open questions, oldest first, and the runs that did not answer."""
        # Only this installation's runs: others in the namespace have people of their own.
        queue = loops_queue(await self._records.installation())
        query = f"{WAITING} AND TaskQueue = {quoted(queue)}"
        found = [look async for look in executions_of(self._server, query)]
        waiting = await with_words(found, self._records)
        answers = await self._answers(waiting, queue)
        told = list(zip(waiting, answers, strict=True))
        questions = [
            OpenGate(run=look.id, kind=look.kind, goal=look.memo.get("goal", ""), gate=gate)
            for look, gates in told
            if not isinstance(gates, PerdureError)
            for gate in gates
            if gate.open
        ]
        failed = {look.id: error for look, error in told if isinstance(error, PerdureError)}
        return OpenGates(
            gates=tuple(sorted(questions, key=lambda item: item.gate.opened_at)),
            unread=tuple(failed),
            reasons={run: str(error) for run, error in failed.items() if has_reason(error)},
        )

    def forget(self, run: str) -> None:
        """Ask a run again next time: it was sent something."""
        self._asked.pop(run, None)

    async def _answers(self, waiting: Sequence[ExecutionInfo], queue: str) -> list[Answer]:
        many = AskMany(queue, at_once=AT_ONCE, present=self._present)
        now, kept = self._clock(), self._asked
        # Made anew, so that runs which no longer wait are forgotten.
        self._asked = {}
        for look in waiting:
            one = kept.get(look.id)
            old = one is not None and one.answer.done() and now >= one.until
            # A reset run may ask something else under the same number.
            if one is None or old or one.execution != look.execution:
                until = now + KEPT_S * len(waiting)
                one = _Asked(look.execution, until, asyncio.create_task(self._of(look, many)))
            self._asked[look.id] = one
        # Shielded: a caller that is cancelled must not cancel the answers for others.
        asked = [self._asked[look.id].answer for look in waiting]
        return list(await asyncio.gather(*(asyncio.shield(answer) for answer in asked)))

    async def _of(self, look: ExecutionInfo, many: AskMany) -> Answer:
        if (trouble := look.trouble) is not None and trouble.mark == PAUSED_THERE:
            return NotAllowed(f"The run is {trouble.found}", cure=trouble.cure)
        try:
            return tuple(await many.ask(lambda: self._server.query(look.id, "gates", GATES)))
        # Returned, not raised: one run must not hide the questions of the others.
        except PerdureError as error:
            return error


async def gates_of(client: Client, run: str) -> list[Gate] | None:
    """The open questions of one run; None if it does not tell them."""
    handle = client.get_workflow_handle(run)
    try:
        return await handle.query("gates", result_type=GATES, rpc_timeout=ANSWERS_WITHIN)
    except (TemporalError, PerdureError):
        return None


def has_reason(error: PerdureError) -> bool:
    """Whether an error says more than that no worker answers.

    The run is paused at the server, or this process lacks the key or codec to decrypt its answer.
    """
    sealed = isinstance(error, StoreError) and not isinstance(error, StoreAway)
    return sealed or isinstance(error, NotAllowed)
