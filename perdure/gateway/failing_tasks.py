"""Open runs whose tasks keep failing: those that the server names, and the newest of all others.

The server names a run in a search attribute after a minute of failures, wherever it is among the
open ones. Younger failures, and a server that lacks the attribute, are found by looking at each
run; that is bounded, and told.
"""

import asyncio

from perdure.domain.foundation.errors import PerdureError, ServiceUnavailable
from perdure.domain.foundation.names import loops_queue
from perdure.domain.ports import RecordStore
from perdure.gateway.diagnostics import FAILING, REPORTED
from perdure.gateway.temporal_gateway import ExecutionInfo, TemporalGateway
from perdure.gateway.types import FailingRun, FailingRuns
from perdure.gateway.visibility import OURS, quoted

PAGE = 200
AT_ONCE = 8


class Failing:
    """Finds runs that fail, whoever started them: also one that never came to name itself."""

    def __init__(self, *, server: TemporalGateway, records: RecordStore) -> None:
        self._server = server
        self._records = records

    async def find(self, *, limit: int) -> FailingRuns:
        """See `Gateway.failing`."""
        queue = loops_queue(await self._records.installation())
        # A run of a type that no worker knows, or with an input that none can read, has no
        # attributes of ours: its queue says whose it is.
        running = f"ExecutionStatus = 'Running' AND ({OURS} OR TaskQueue = {quoted(queue)})"
        named = await self._named(running, limit=limit)
        newest = await self._pages(running, limit=limit)
        ids = list(dict.fromkeys(look.id for look in (*(named or ()), *newest)))
        looks = [look for look in await self._looks(ids) if look.open]
        return FailingRuns(
            runs=tuple(
                FailingRun(run=look.id, found=look.trouble.found, cure=look.trouble.cure)
                for look in looks
                if look.trouble is not None and look.trouble.mark.startswith(FAILING)
            ),
            open=max(len(looks), await self._server.count(running)),
            looked_at=len(looks),
            server_names_them=named is not None and len(named) < limit,
        )

    async def _named(self, running: str, *, limit: int) -> list[ExecutionInfo] | None:
        """Those that the server names; None where it has no such attribute."""
        try:
            return await self._pages(f"{running} AND {REPORTED} IS NOT NULL", limit=limit)
        except ServiceUnavailable:
            raise
        except PerdureError:
            return None

    async def _pages(self, query: str, *, limit: int) -> list[ExecutionInfo]:
        found: list[ExecutionInfo] = []
        cursor: bytes | None = None
        while len(found) < limit:
            page, cursor = await self._server.page(
                query, limit=min(PAGE, limit - len(found)), cursor=cursor
            )
            found += page
            if cursor is None:
                break
        return found

    async def _looks(self, runs: list[str]) -> list[ExecutionInfo]:
        found: list[ExecutionInfo] = []
        for start in range(0, len(runs), AT_ONCE):
            some = (self._server.look(run) for run in runs[start : start + AT_ONCE])
            found += [look for look in await asyncio.gather(*some) if look is not None]
        return found
