"""The questions of all open runs that wait for a person."""

import asyncio

from perdure.domain.foundation.errors import NotAllowed, PerdureError, StoreAway, StoreError
from perdure.domain.foundation.names import OPEN_EXECUTION, loops_queue
from perdure.domain.ports import RecordStore
from perdure.domain.run.gates import Gate
from perdure.gateway.run_words import with_words
from perdure.gateway.server_pauses import PAUSED_THERE
from perdure.gateway.temporal_gateway import ExecutionInfo, TemporalGateway
from perdure.gateway.types import OpenGate, OpenGates
from perdure.gateway.visibility import OURS, every, quoted

GATES = list[Gate]
WAITING = f"{OPEN_EXECUTION} AND {OURS} AND PerdureLifecycle IN ('waiting', 'paused')"


class GateReader:
    """Asks each waiting run for its open questions."""

    def __init__(self, *, server: TemporalGateway, records: RecordStore) -> None:
        self._server = server
        self._records = records

    async def read(self) -> OpenGates:
        """The open questions, oldest first, and the runs that did not answer."""
        # Only this installation's runs: others in the namespace have people of their own.
        queue = loops_queue(await self._records.installation())
        query = f"{WAITING} AND TaskQueue = {quoted(queue)}"
        found = [look async for look in every(self._server, query)]
        waiting = await with_words(found, self._records)
        answers = await asyncio.gather(*(self._gates_of(look) for look in waiting))
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

    async def _gates_of(self, look: ExecutionInfo) -> tuple[Gate, ...] | PerdureError:
        if (trouble := look.trouble) is not None and trouble.mark == PAUSED_THERE:
            return NotAllowed(f"The run is {trouble.found}", cure=trouble.cure)
        try:
            return tuple(await self._server.query(look.id, "gates", GATES))
        except PerdureError as error:
            return error


def has_reason(error: PerdureError) -> bool:
    """Whether an error says more than that no worker answers.

    The run is paused at the server, or this process lacks the key or codec to decrypt its answer.
    """
    sealed = isinstance(error, StoreError) and not isinstance(error, StoreAway)
    return sealed or isinstance(error, NotAllowed)
