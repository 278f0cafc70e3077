"""Queries to the server's list of runs, built from closed sets of words only, and their rows."""

import re
from collections.abc import AsyncIterator

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.run.status import StoredRun
from perdure.gateway.stored_status import torn_lifecycle
from perdure.gateway.temporal_gateway import ExecutionInfo, TemporalGateway
from perdure.gateway.types import LABEL_MARK, RunFilter, RunRow

OURS = "PerdureKind IS NOT NULL"
# A run that continued as new is one run, listed by its newest execution.
ONE_EACH = "ExecutionStatus != 'ContinuedAsNew'"
PAGE = 200
OPEN = frozenset({"running", "paused", "waiting"})
_SAFE = re.compile(r"[^'\"\\`\x00-\x1f]{1,512}")


def quoted(text: str) -> str:
    """A literal of the query language.

    Raises:
        InvalidInput: the text has quotes, backslashes or control characters.
    """
    if not _SAFE.fullmatch(text):
        raise InvalidInput(
            f"{text[:80]!r} cannot be looked for.",
            cure="Use 1 to 512 characters without quotes, backslashes and line breaks.",
        )
    return f"'{text}'"


def query_of(wanted: RunFilter) -> str:
    """The visibility query of a filter: root runs, each chain of executions once."""
    tree = "ParentWorkflowId IS NULL"
    if wanted.root is not None:
        tree = f"RootWorkflowId = {quoted(wanted.root)}"
    parts = [OURS, ONE_EACH, tree]
    status = lifecycle_of(wanted)
    if status is not None:
        parts.append(f"PerdureLifecycle = {quoted(status)}")
        if status in OPEN:
            parts.append("ExecutionStatus = 'Running'")
    named = {
        "PerdureKind": wanted.kind,
        "PerdureLabel": wanted.label,
        "PerdureOutcome": wanted.outcome,
        "PerdurePhase": wanted.phase,
    }
    parts += [f"{name} = {quoted(value)}" for name, value in named.items() if value is not None]
    return " AND ".join(parts)


def lifecycle_of(wanted: RunFilter) -> str | None:
    """The lifecycle that is asked for; `cancelled` is a synonym of `stopped`."""
    return "stopped" if wanted.status == "cancelled" else wanted.status


def label_of(look: ExecutionInfo) -> str | None:
    """The label; where the server was told a mark, the sealed memo has it."""
    told = look.text("PerdureLabel")
    if told is None or not told.startswith(LABEL_MARK):
        return told
    return look.memo.get("label")


def row_of(look: ExecutionInfo) -> RunRow:
    """One run as the server lists it."""
    lifecycle = look.text("PerdureLifecycle") or "running"
    if look.ending is not None and lifecycle in OPEN:
        lifecycle = torn_lifecycle(look.ending)
    iteration = look.number("PerdureIteration")
    return RunRow(
        id=look.id,
        kind=look.kind,
        goal=look.memo.get("goal", ""),
        label=label_of(look),
        lifecycle=lifecycle,
        phase=look.text("PerdurePhase"),
        blocked_on=look.text("PerdureBlockedOn") or None if look.open else None,
        outcome=look.text("PerdureOutcome"),
        definition=look.memo.get("definition"),
        iteration=None if iteration is None else int(iteration),
        score=look.number("PerdureScore"),
        cost_usd=look.number("PerdureCostUsd"),
        parent=look.parent,
        started_at=look.started_at,
        ended_at=look.closed_at,
        trouble=look.trouble.text if look.trouble is not None else None,
    )


def row_of_stored(row: StoredRun) -> RunRow:
    """One run as the store keeps it."""
    return RunRow(
        id=row.id,
        kind=row.kind,
        goal=row.goal,
        label=row.label,
        lifecycle=row.lifecycle,
        phase="ended" if row.ended_at else None,
        outcome=row.outcome,
        started_at=row.started_at,
        ended_at=row.ended_at,
        source="store",
    )


def fits(row: StoredRun, wanted: RunFilter) -> bool:
    """Whether a stored run passes the filter."""
    phase = "ended" if row.ended_at else None
    asked = (lifecycle_of(wanted), wanted.kind, wanted.label, wanted.outcome, wanted.phase)
    found = (row.lifecycle, row.kind, row.label, row.outcome, phase)
    return all(want is None or want == have for want, have in zip(asked, found, strict=True))


async def every(server: TemporalGateway, query: str) -> AsyncIterator[ExecutionInfo]:
    """All runs of a query, page by page."""
    cursor: bytes | None = None
    while True:
        found, cursor = await server.page(query, limit=PAGE, cursor=cursor)
        for look in found:
            yield look
        if cursor is None:
            return
