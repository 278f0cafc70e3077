"""Closes the rows of runs that ended at the server without the run itself: terminated, timed out.

Their workflow wrote no end. As long as the row is open, the run counts as one, its folder stays,
and no rule of retention drops it.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime

from perdure.domain.evaluation.outcomes import lifecycle
from perdure.domain.ports import RecordStore
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import StoredRun
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.temporal_gateway import TemporalGateway

TORN = frozenset({"terminated", "timed_out", "canceled", "failed"})
KEPT_RECORDS = 20  # as many as the result of a run that ended by itself has; the store has all
ResultOf = Callable[[str], Awaitable[RunResult]]


@dataclass(frozen=True, kw_only=True)
class TornRows:
    """Closes rows on the server's word alone.

    A run that the server does not know may belong to another namespace with the same store.
    """

    server: TemporalGateway
    records: RecordStore
    result_of: ResultOf

    async def close(
        self, *, before: datetime | None = None, runs: Collection[str] | None = None
    ) -> int:
        """Close the rows of runs that ended, and returns how many there were.

        Args:
            before: when they ended at the latest; None: whenever.
            runs: look at these only; None looks at all that are open in the store.
        """
        closed = 0
        for run in await self.records.open_runs() if runs is None else runs:
            row = await self.records.run(run)
            look = None if row is None else await self.server.look(run)
            if row is None or row.ended_at is not None or look is None or look.ending not in TORN:
                continue
            if look.closed_at is None or (before is not None and look.closed_at >= before):
                continue
            ended = await self._ended(row, look)
            # Refused if the row has changed since: somebody retried the run.
            closed += await self.records.claim_run(ended, seen=row)
        return closed

    async def _ended(self, row: StoredRun, look: ExecutionInfo) -> StoredRun:
        whole = await self.result_of(row.id)
        # What is kept by reference, and the records, are read from there.
        output = None if whole.output_ref is not None else whole.output
        records = whole.iterations[-KEPT_RECORDS:]
        result = whole.model_copy(update={"output": output, "iterations": records})
        return row.model_copy(
            update={
                "lifecycle": lifecycle(result.outcome),
                "outcome": result.outcome,
                "ended_at": look.closed_at,
                # A stored result of a run below another one says that the other one has read it.
                "result": result.model_dump_json() if row.parent is None else None,
            }
        )
