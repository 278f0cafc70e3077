"""Keeps starts back while as many runs are open as may be."""

import asyncio
from collections import Counter

import structlog

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.installation.open_limits import OpenLimits
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.visibility import OURS

OPEN_ROOTS = f"ExecutionStatus = 'Running' AND {OURS} AND ParentWorkflowId IS NULL"
PAGE = 500
LOOK_S = 2.0
_log = structlog.get_logger(__name__)


class Admission:
    """Counts the open runs at the server, whose index is a second behind.

    Starts that come at the same moment do not see each other, and may pass a limit together.
    """

    def __init__(self, server: TemporalGateway, limits: OpenLimits) -> None:
        self._server = server
        self._limits = limits

    async def admit(self, tenant: str | None, *, queue: str) -> None:
        """Return when a run of this tenant may start on the queue of its installation's loops.

        Raises:
            NotAllowed: a limit is reached, and starts above it are refused.
        """
        if self._limits.none:
            return
        told = None
        while (reached := self._limits.reached(tenant, await self._open(queue))) is not None:
            if self._limits.above == "refuse":
                raise NotAllowed(
                    f"{reached}. Nothing was started.",
                    cure="Start it again when one has ended, or raise the limit.",
                )
            if reached != told:
                _log.warning("start_waits", because=reached)
            told = reached
            await asyncio.sleep(LOOK_S)

    async def _open(self, queue: str) -> Counter[str | None]:
        """The open runs that somebody started, by tenant."""
        query = f"{OPEN_ROOTS} AND TaskQueue = '{queue}'"
        if self._limits.per_tenant is None:
            return Counter({None: await self._server.count(query)})
        found, cursor = Counter[str | None](), None
        while True:
            page, cursor = await self._server.page(query, limit=PAGE, cursor=cursor)
            found.update(one.memo.get("tenant") or one.memo.get("label") for one in page)
            if cursor is None:
                return found
