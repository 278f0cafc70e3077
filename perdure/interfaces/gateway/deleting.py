"""Dropping ended runs: their histories from the server, their rows from the store."""

from contextlib import suppress

from perdure.domain.errors import NotAllowed, NotFound
from perdure.domain.ports import RecordStore
from perdure.interfaces.gateway.faults import unknown_run
from perdure.interfaces.gateway.server import Server
from perdure.interfaces.gateway.visibility import every, quoted


class Deleting:
    """Deletes runs; what they spent stays in the journal, which is a ledger."""

    def __init__(self, *, server: Server, records: RecordStore) -> None:
        self._server = server
        self._records = records

    async def delete(self, run: str) -> None:
        """Drop an ended run; see `Gateway.delete`."""
        look = await self._server.look(run)
        if look is None and await self._records.run(run) is None:
            raise unknown_run(run)
        if look is not None and look.open:
            raise NotAllowed(
                f"The run {run} has not ended; only ended runs can be deleted.",
                cure=f"Stop it first: perdure stop {run}",
            )
        # The list may not know the newest execution yet; `look` does.
        executions = {found.execution async for found in every(self._server, _all_of(run))}
        for execution in executions | ({look.execution} if look else set()):
            with suppress(NotFound):
                await self._server.delete(run, execution)
        await self._records.delete_run(run)


def _all_of(run: str) -> str:
    return f"WorkflowId = {quoted(run)}"
