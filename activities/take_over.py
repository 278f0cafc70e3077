"""The activities `settle_child` and `take_over`: settle lost children and old executions."""

from collections.abc import Mapping

from temporalio import activity
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.service import RPCError, RPCStatusCode

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.run_storage import records_of
from perdure.domain.budget.journal import AttemptRow, Journal
from perdure.domain.foundation.names import WORKFLOW_TYPES
from perdure.domain.ports import RecordStore
from perdure.domain.run.activity_messages import SettleChildReport, SettleChildRequest
from perdure.domain.run.child_runs import child_name, child_number, is_below
from perdure.domain.run.resume import booked_of, booked_report
from perdure.domain.run.take_over import (
    Orphan,
    TakeOverReport,
    TakeOverRequest,
    last_taken_number,
    reopened,
)

MOST_RUNS_BELOW = 10_000


class ChildSettling:
    """Adds up what a child and all runs below it spent, and stops them from spending more."""

    def __init__(self, *, journal: Journal, records: RecordStore) -> None:
        self._journal = journal
        self._records = records

    async def settle(self, step: SettleChildRequest) -> SettleChildReport:
        """Seal the journal, then add up; a repeat gives the same."""
        # Sealing refuses every later attempt of the child, so the sum cannot grow after it was
        # read.
        rows = await self._journal.seal_tree(root=step.root, run=step.child)
        found = await self._records.find_runs(prefix=step.child, limit=MOST_RUNS_BELOW)
        runs = [run for run in found if run.id == step.child or is_below(run.id, step.child)]
        records = [record for run in runs for record in await records_of(self._records, run.id)]
        spend = booked_report(booked_of(rows), count_cache_reads=step.count_cache_reads)
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


class SettleChild:
    """The activity `settle_child`."""

    def __init__(self, *, journal: Journal, records: RecordStore) -> None:
        self._settling = ChildSettling(journal=journal, records=records)

    @activity.defn
    @translated
    async def settle_child(self, step: SettleChildRequest) -> SettleChildReport:
        """Close a child that ended without a result."""
        return await self._settling.settle(step)


_KINDS = {workflow: kind for kind, workflow in WORKFLOW_TYPES.items()}


async def children_started(run: str, current: str) -> dict[str, str]:
    """The kinds of all children that older executions of a run started, by id.

    They are read from the histories, because a child that no worker has opened yet has no row in
    the store. Each history names the one that it was reset from.
    """
    found: dict[str, str] = {}
    waiting, seen = [current], set[str]()
    while waiting:
        execution = waiting.pop()
        if execution in seen:
            continue
        seen.add(execution)
        for event in await _events(run, execution):
            if (base := _reset_from(event)) is not None:
                waiting.append(base)
            elif execution != current:
                found |= _child(event)
    return found


async def _events(run: str, execution: str) -> list[HistoryEvent]:
    """The history of one execution; empty where the server dropped it."""
    handle = activity.client().get_workflow_handle(run, run_id=execution)
    try:
        return [event async for event in handle.fetch_history_events()]
    except RPCError as error:
        # Retention has passed: children that were never opened cannot have spent anything.
        if error.status is RPCStatusCode.NOT_FOUND:
            return []
        raise


def _reset_from(event: HistoryEvent) -> str | None:
    failed = event.workflow_task_failed_event_attributes
    if failed.cause != WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW:
        return None
    return failed.base_run_id or None


def _child(event: HistoryEvent) -> dict[str, str]:
    if event.event_type != EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
        return {}
    asked = event.start_child_workflow_execution_initiated_event_attributes
    kind = asked.workflow_type.name
    return {asked.workflow_id: _KINDS.get(kind, kind)}


class TakeOver:
    """Settles older executions of a run, and reopens its row."""

    def __init__(self, *, journal: Journal, records: RecordStore) -> None:
        self._journal = journal
        self._records = records
        self._settling = ChildSettling(journal=journal, records=records)

    @activity.defn
    @translated
    async def take_over(self, step: TakeOverRequest) -> TakeOverReport:
        """Close the journal of the former execution, then sum it up. Safe to repeat."""
        row = await self._records.run(step.run)
        if row is not None and row.parent is not None and row.ended_at and row.result:
            return TakeOverReport(ended=row.result)
        current = activity.info().workflow_run_id or ""
        # The old execution may still run on a worker that has not heard of the reset.
        await self._journal.seal_lives(
            root=step.root, run=step.run, current=current, before=step.before
        )
        # The new execution does not know the children of the old one, and they go on spending.
        newest, orphans = await self._orphans(step, await children_started(step.run, current))
        rows = await self._journal.tree(root=step.root, run=step.run)
        dropped = await self._records.drop_records(step.run, after=step.records)
        if row is not None and row.ended_at is not None:
            # Only the end that was read: `perdure retry` may reopen the run at this moment.
            await self._records.reopen_run(reopened(row), ended_at=row.ended_at)
        return TakeOverReport(
            booked=booked_of(one for one in rows if not _held(one, step.held, current)),
            orphans=orphans,
            children=last_taken_number(step.children, newest),
            tool_calls=dropped - step.dropped_calls,
        )

    async def _orphans(
        self, step: TakeOverRequest, started: Mapping[str, str]
    ) -> tuple[int, tuple[Orphan, ...]]:
        """Children that only older executions know, and the number of the newest child of all.

        Args:
            step: what this execution knows.
            started: the kinds of all children that older executions started, opened or not.
        """
        found = await self._records.find_runs(prefix=f"{step.run}.", limit=MOST_RUNS_BELOW)
        numbers = {row.id: child_number(row.id, step.run) for row in found}
        mine = [row for row in found if row.parent == step.run]
        lost = [row for row in mine if numbers[row.id] > step.children]
        orphans = [
            await self._orphan(row.id, row.kind, step, is_open=row.ended_at is None)
            for row in reversed(lost)
        ]
        opened = {row.id for row in mine}
        unopened = {
            child: child_number(child, step.run) for child in sorted(started) if child not in opened
        }
        for child, number in unopened.items():
            if number > step.children:
                orphans.append(await self._orphan(child, started[child], step, is_open=True))
        known = (numbers[row.id] for row in mine)
        return max((*known, *unopened.values()), default=0), tuple(orphans)

    async def _orphan(
        self, child: str, kind: str, step: TakeOverRequest, *, is_open: bool
    ) -> Orphan:
        settled = await self._settling.settle(
            SettleChildRequest(
                child=child, root=step.root, count_cache_reads=step.count_cache_reads
            )
        )
        return Orphan(
            id=child, name=child_name(child, step.run), kind=kind, open=is_open, spend=settled.spend
        )


def _held(row: AttemptRow, held: tuple[str, ...], current: str) -> bool:
    """Whether a row belongs to a step or child that will be settled on its own."""
    if row.key.startswith(f"{current}/") and row.key.removeprefix(f"{current}/") in held:
        return True
    return any(row.run == child or is_below(row.run, child) for child in held)
