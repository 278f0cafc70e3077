"""Runs that began so lately that the server's index may lack them: their rows name them.

The index is seconds behind at best, and longer on a loaded server. What is asked of one run by its
id is never behind. A run that a Temporal client started has no row until a worker has opened it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from perdure.domain.ports import RecordStore
from perdure.domain.run.child_runs import is_below
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.visibility import ONE_EACH, quoted

LATE = timedelta(minutes=2)
"""How far the index may be behind."""
MOST = 200
"""How many of the newest rows are looked at."""


@dataclass(frozen=True, kw_only=True)
class Unlisted:
    """Finds them, newest first."""

    server: TemporalGateway
    records: RecordStore
    now: Callable[[], datetime]

    async def looks(self, *, root: str | None = None) -> list[ExecutionInfo]:
        """The young runs that the index lacks and the server knows.

        Ask for them before what the index has: then a run that gets there in between is in both,
        and in neither otherwise.

        Args:
            root: those of a tree, with the run at its top; None: those that have no run above them.

        Raises:
            ServiceUnavailable: the server does not answer.
        """
        young = await self._young(root)
        if not young:
            return []
        names = ", ".join(quoted(run) for run in young)
        # Twice as many, since a run that was reset or retried has several executions.
        listed, _ = await self.server.page(
            f"WorkflowId IN ({names}) AND {ONE_EACH}", limit=2 * MOST
        )
        known = {look.id for look in listed}
        return await self.server.looks([run for run in young if run not in known])

    async def _young(self, root: str | None) -> list[str]:
        since = self.now() - LATE
        if root is None:
            rows = await self.records.find_runs(limit=MOST, roots=True)
        else:
            rows = await self.records.find_runs(prefix=root, limit=MOST)
            rows = [row for row in rows if row.id == root or is_below(row.id, root)]
        return [row.id for row in rows if row.started_at >= since]
