"""Visibility queries, rows of run lists, and runs whose tasks keep failing.

After a minute of failures, the server reports a run in a search attribute. Younger failures, or all
of them if the server lacks the attribute, are found by looking at each run. The number of looks is
bounded, and the answer says how many runs were looked at.
"""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from perdure.domain.foundation.errors import InvalidInput, PerdureError, ServiceUnavailable
from perdure.domain.foundation.names import (
    LONGEST_RUN_ID,
    OPEN_EXECUTION,
    TASK_QUEUE,
    WORKFLOW_TYPES,
    loops_queue,
)
from perdure.domain.ports import RecordStore
from perdure.domain.run.status import StoredRun
from perdure.domain.specs import KINDS
from perdure.gateway.diagnostics import REPORTED
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.run_problem import FAILING
from perdure.gateway.stored_status import stored_status, torn_lifecycle
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.types import LABEL_MARK, FailingRun, FailingRuns, RunFilter, RunRow

OURS = "PerdureKind IS NOT NULL"
# A run that continued as new is listed once, with its newest execution.
ONE_EACH = "ExecutionStatus != 'ContinuedAsNew'"
NO_WORKER_YET = "waiting for a worker"
BEGINS_LATER = "begins at {at}: it was started with a delay"
NOT_AT_THE_SERVER = "the Temporal server does not know it"
PAGE = 200
OPEN = frozenset({"running", "paused", "waiting"})
# How an execution can close without a last word of the run, by what such a run counts as.
TORN = {"stopped": ("Terminated", "Canceled"), "failed": ("TimedOut", "Failed")}
_SAFE = re.compile(rf"[^'\"\\`\x00-\x1f]{{1,{LONGEST_RUN_ID}}}")


def quoted(text: str) -> str:
    """A literal of the query language.

    Raises:
        InvalidInput: the text has quotes, backslashes or control characters.
    """
    if not _SAFE.fullmatch(text):
        raise InvalidInput(
            f"{text[:80]!r} cannot be searched for.",
            cure=f"Use 1 to {LONGEST_RUN_ID:,} characters without quotes, backslashes and line "
            "breaks.",
        )
    return f"'{text}'"


def unopened(task_queue: str) -> str:
    """The condition for runs that a Temporal client started and no worker has opened yet."""
    types = ", ".join(quoted(WORKFLOW_TYPES[kind]) for kind in KINDS)
    return f"({OPEN_EXECUTION} AND TaskQueue = {quoted(task_queue)} AND WorkflowType IN ({types}))"


def ours(loops: str, task_queue: str) -> str:
    """The condition for runs of this installation that have set their search attributes.

    Several installations may share a namespace; their runs have other keys, stores and workers.

    Args:
        loops: the queue of this installation's runs.
        task_queue: the queue on which Temporal clients start runs, until they are opened.
    """
    return f"({OURS} AND TaskQueue IN ({quoted(loops)}, {quoted(task_queue)}))"


def query_of(wanted: RunFilter, *, loops: str, task_queue: str = TASK_QUEUE) -> str:
    """The visibility query of a filter: root runs, each chain of executions once.

    Args:
        wanted: the filter. A run that waits to be opened has no search attributes yet, so it is
            included only if the filter asks for nothing but `running`.
        loops: as for `ours`.
        task_queue: as for `ours`.
    """
    tree = "ParentWorkflowId IS NULL"
    if wanted.root is not None:
        tree = f"RootWorkflowId = {quoted(wanted.root)}"
    asked = _asked(wanted)
    found = " AND ".join((ours(loops, task_queue), *asked))
    if wanted.status in {None, "running"} and asked == _asked(RunFilter(status=wanted.status)):
        found = f"({found} OR {unopened(task_queue)})"
    return f"{ONE_EACH} AND {tree} AND {found}"


def _asked(wanted: RunFilter) -> list[str]:
    """The conditions of a filter on search attributes."""
    parts, status = list[str](), lifecycle_of(wanted)
    if status is not None:
        stands = f"PerdureLifecycle = {quoted(status)}"
        if status in OPEN:
            stands = f"{stands} AND {OPEN_EXECUTION}"
        if status in TORN:
            stands = f"({stands} OR {_torn(TORN[status])})"
        parts.append(stands)
    named = {
        "PerdureKind": wanted.kind,
        "PerdureLabel": wanted.label,
        "PerdureOutcome": wanted.outcome,
    }
    parts += [f"{name} = {quoted(value)}" for name, value in named.items() if value is not None]
    if wanted.phase is not None:
        stands = f"PerdurePhase = {quoted(wanted.phase)}"
        # The last word of a run that was closed from outside is a phase of its work.
        ended = f"{stands} OR {_torn(sum(TORN.values(), ()))}"
        at_work = f"{stands} AND {OPEN_EXECUTION}"
        parts.append(f"({ended})" if wanted.phase == "ended" else at_work)
    return parts


def _torn(closed: Sequence[str]) -> str:
    """The condition for runs that were closed from outside, in one of these ways."""
    still, how = (", ".join(map(quoted, words)) for words in (sorted(OPEN), closed))
    return f"(PerdureLifecycle IN ({still}) AND ExecutionStatus IN ({how}))"


def lifecycle_of(wanted: RunFilter) -> str | None:
    """The lifecycle that a filter asks for; `cancelled` is a synonym of `stopped`."""
    return "stopped" if wanted.status == "cancelled" else wanted.status


def label_of(look: ExecutionInfo) -> str | None:
    """The label; if the search attribute holds only a digest, the label is in the memo."""
    told = look.text("PerdureLabel")
    if told is None or not told.startswith(LABEL_MARK):
        return told
    return look.memo.get("label")


def delay_note(look: ExecutionInfo, now: datetime) -> str | None:
    """When a run begins that was started with a delay, in words; None for any other run.

    The server's facts say it, whatever the clock of this host: until it begins, the history of such
    a run is its start alone. Only a list, which has the length of no open history, goes by `now`.
    """
    if not look.open or look.begins_at is None or look.begins_at <= look.started_at:
        return None
    if look.history_length > 1 or (not look.history_length and look.begins_at <= now):
        return None
    return BEGINS_LATER.format(at=f"{look.begins_at:%Y-%m-%d %H:%M:%S} UTC")


def is_torn(look: ExecutionInfo) -> bool:
    """Whether an execution was closed from outside: its last words are those of an open run."""
    return look.ending is not None and (look.text("PerdureLifecycle") or "running") in OPEN


def row_of(look: ExecutionInfo, now: datetime) -> RunRow:
    """The row of a run from the server's list."""
    lifecycle, torn = look.text("PerdureLifecycle") or "running", is_torn(look)
    if look.ending is not None and torn:
        lifecycle = torn_lifecycle(look.ending)
    iteration = look.number("PerdureIteration")
    unread = look.open and look.text("PerdureKind") is None
    return RunRow(
        id=look.id,
        kind=look.kind,
        goal=look.memo.get("goal", ""),
        label=label_of(look),
        lifecycle=lifecycle,
        phase="starting" if unread else "ended" if torn else look.text("PerdurePhase"),
        blocked_on=look.text("PerdureBlockedOn") or None if look.open else None,
        outcome=look.text("PerdureOutcome"),
        definition=look.memo.get("definition"),
        iteration=None if iteration is None else int(iteration),
        score=look.number("PerdureScore"),
        cost_usd=look.number("PerdureCostUsd"),
        parent=look.parent,
        started_at=look.started_at,
        ended_at=look.closed_at,
        trouble=_waits_for(look, now) if unread and look.trouble is None else _trouble(look),
        failing=look.trouble is not None and look.trouble.mark.startswith(FAILING),
    )


def _waits_for(look: ExecutionInfo, now: datetime) -> str:
    """What a run waits for that no worker has opened."""
    return delay_note(look, now) or NO_WORKER_YET


def _trouble(look: ExecutionInfo) -> str | None:
    return look.trouble.text if look.trouble is not None else None


def row_of_stored(row: StoredRun) -> RunRow:
    """The row of a run from the store; the result of one that has ended has its figures."""
    ended = stored_status(row) if row.ended_at is not None and row.result else None
    cost = ended.budget.cost_usd if ended is not None else None
    return RunRow(
        id=row.id,
        kind=row.kind,
        goal=row.goal,
        label=row.label,
        lifecycle=row.lifecycle,
        phase="ended" if row.ended_at else None,
        outcome=row.outcome,
        iteration=ended.iteration if ended is not None else None,
        score=ended.best.score if ended is not None and ended.best is not None else None,
        cost_usd=None if cost is None else float(cost),
        started_at=row.started_at,
        ended_at=row.ended_at,
        source="store",
    )


def gone(row: StoredRun) -> StoredRun:
    """The row of an open run as it stands when the server does not know the run."""
    return row.model_copy(update={"lifecycle": "failed"})


def row_of_gone(row: StoredRun) -> RunRow:
    """The row of an open run that the server does not know, in a list."""
    told = f"{NOT_AT_THE_SERVER}: `perdure retry {row.id}` goes on from the store"
    return row_of_stored(gone(row)).model_copy(update={"phase": "ended", "trouble": told})


def row_of_elsewhere(row: StoredRun, namespace: str) -> RunRow:
    """The row of an open run of another namespace, in a list."""
    return row_of_stored(row).model_copy(update={"trouble": f"in the namespace {namespace}"})


def fits(row: StoredRun, wanted: RunFilter) -> bool:
    """Whether a stored run passes the filter."""
    phase = "ended" if row.ended_at or row.lifecycle not in OPEN else None
    asked = (lifecycle_of(wanted), wanted.kind, wanted.label, wanted.outcome, wanted.phase)
    found = (row.lifecycle, row.kind, row.label, row.outcome, phase)
    return all(want is None or want == have for want, have in zip(asked, found, strict=True))


def row_fits(row: RunRow, wanted: RunFilter) -> bool:
    """Whether a row of a run at the server passes the filter, but for its tree."""
    asked = (lifecycle_of(wanted), wanted.kind, wanted.label, wanted.outcome, wanted.phase)
    found = (row.lifecycle, row.kind, row.label, row.outcome, row.phase)
    return all(want is None or want == have for want, have in zip(asked, found, strict=True))


async def executions_of(server: TemporalGateway, query: str) -> AsyncIterator[ExecutionInfo]:
    """All runs of a query, page by page."""
    cursor: bytes | None = None
    while True:
        found, cursor = await server.page(query, limit=PAGE, cursor=cursor)
        for look in found:
            yield look
        if cursor is None:
            return


@dataclass(frozen=True, kw_only=True)
class Failing:
    """Finds runs whose workflow tasks fail, even those that never set a search attribute."""

    server: TemporalGateway
    records: RecordStore
    task_queue: str = TASK_QUEUE

    async def find(self, *, limit: int) -> FailingRuns:
        """See `Gateway.failing`."""
        queue = loops_queue(await self.records.installation())
        # A run with an unknown type or an unreadable input has none of our search attributes, so
        # its queue has to show that it is ours.
        theirs = f"TaskQueue = {quoted(queue)} OR {unopened(self.task_queue)}"
        unended = f"{OPEN_EXECUTION} AND ({theirs})"
        named = await self._named(unended, limit=limit)
        newest = await self._pages(unended, limit=limit)
        ids = list(dict.fromkeys(look.id for look in (*(named or ()), *newest)))
        looks = [look for look in await self.server.looks(ids) if look.open]
        return FailingRuns(
            runs=tuple(
                FailingRun(run=look.id, found=look.trouble.found, cure=look.trouble.cure)
                for look in looks
                if look.trouble is not None and look.trouble.mark.startswith(FAILING)
            ),
            # The index that counts them may be behind what was looked at.
            open=max(len(looks), await self.server.count(unended)),
            looked_at=len(looks),
            server_names_them=named is not None and len(named) < limit,
        )

    async def _named(self, unended: str, *, limit: int) -> list[ExecutionInfo] | None:
        """Runs that the server reports; None if it lacks the search attribute."""
        try:
            return await self._pages(f"{unended} AND {REPORTED} IS NOT NULL", limit=limit)
        # A server that is away must not look like an older one, which refuses this query.
        except ServiceUnavailable:
            raise
        except PerdureError:
            return None

    async def _pages(self, query: str, *, limit: int) -> list[ExecutionInfo]:
        found: list[ExecutionInfo] = []
        cursor: bytes | None = None
        while len(found) < limit:
            page, cursor = await self.server.page(
                query, limit=min(PAGE, limit - len(found)), cursor=cursor
            )
            found += page
            if cursor is None:
                break
        return found
