"""The activity `settle_child`: what a child run used that ended without saying so."""

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.domain.budget.journal import Journal
from perdure.domain.foundation.tolerance import read
from perdure.domain.ports import RecordStore
from perdure.domain.run.activity_messages import SettleChildReport, SettleChildRequest
from perdure.domain.run.child_runs import is_below
from perdure.domain.run.resume import booked, booked_report
from perdure.domain.run.stored_run import StoredRun
from perdure.domain.turns.records import IterationRecord

MOST_RUNS_BELOW = 10_000


class Settling:
    """Adds up journal and records; from here on the child, and all below it, may spend nothing."""

    def __init__(self, *, journal: Journal, records: RecordStore) -> None:
        self._journal = journal
        self._records = records

    async def settle(self, step: SettleChildRequest) -> SettleChildReport:
        """Seal first, so that the sum is final; a repeat gives the same."""
        rows = await self._journal.seal_tree(root=step.root, run=step.child)
        runs = await self._runs(step.child)
        records = [record for run in runs for record in await self._iterations(run.id)]
        spend = booked_report(booked(rows))
        below = [run for run in runs if run.id != step.child]
        return SettleChildReport(
            spend=spend.model_copy(
                update={
                    "tool_calls": sum(record.tool_calls for record in records),
                    "iterations": len(records),
                    "workers": len(below),
                    "sub_managers": sum(run.kind == "delegation" for run in below),
                }
            )
        )

    async def _runs(self, child: str) -> list[StoredRun]:
        found = await self._records.find_runs(prefix=child, limit=MOST_RUNS_BELOW)
        return [run for run in found if run.id == child or is_below(run.id, child)]

    async def _iterations(self, run: str) -> list[IterationRecord]:
        texts = await self._records.records(run)
        return [read(IterationRecord, text) for text in texts]


class SettleChild:
    """The activity around it."""

    def __init__(self, *, journal: Journal, records: RecordStore) -> None:
        self._settling = Settling(journal=journal, records=records)

    @activity.defn
    @translated
    async def settle_child(self, step: SettleChildRequest) -> SettleChildReport:
        """Close a child that ended without a result."""
        return await self._settling.settle(step)
