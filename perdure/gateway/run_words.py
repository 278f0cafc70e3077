"""What lists of runs take from the store: goals, labels, and how far open runs have come.

A run tells the server of its progress by search attributes, and each update is an event in its
history. So an agent, which takes many short turns, tells it rarely; the journal knows more.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from perdure.domain.budget.journal import CallProgress, Journal
from perdure.domain.foundation.errors import StoreAway
from perdure.domain.foundation.names import MEMO_GOAL_CHARACTERS
from perdure.domain.ports import RecordStore
from perdure.domain.run.status import RunWords, StoredRun
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.types import RunRow
from perdure.gateway.visibility import is_torn, row_of_stored

GOAL = "goal"
STARTING = "starting"
_KEPT = ("lifecycle", "phase", "outcome", "iteration", "score", "cost_usd", "ended_at")


async def with_words(looks: Sequence[ExecutionInfo], records: RecordStore) -> list[ExecutionInfo]:
    """The same executions, each with its goal and label.

    A run that a Temporal client or a schedule started with its task alone has no memo: it goes on
    as a new execution, which takes over only what the first one was started with. While the store
    is away, such a run is listed without a goal.
    """
    without = [look.id for look in looks if GOAL not in look.memo]
    if not without:
        return list(looks)
    try:
        words = await records.words(without)
    except StoreAway:
        return list(looks)
    return [_named(look, words.get(look.id)) for look in looks]


def _named(look: ExecutionInfo, words: RunWords | None) -> ExecutionInfo:
    if words is None or GOAL in look.memo:
        return look
    told = {GOAL: " ".join(words.goal.split())[:MEMO_GOAL_CHARACTERS]}
    if words.label is not None:
        told["label"] = words.label
    return replace(look, memo={**told, **look.memo})


async def with_progress(
    looks: Sequence[ExecutionInfo], rows: Sequence[RunRow], journal: Journal
) -> tuple[RunRow, ...]:
    """The rows of these executions, with what the journal knows of those that told no end.

    While the store is away, they say what the server knows.
    """
    unended = [look for look in looks if look.open or is_torn(look)]
    if not unended:
        return tuple(rows)
    try:
        calls = await journal.progress([look.id for look in unended if look.open])
        spent = await journal.spent([look.id for look in unended if not look.parent])
    except StoreAway:
        return tuple(rows)
    # By the execution too: what one before a reset has done is not the progress of this one.
    newest = {(call.run, call.execution): call for call in calls}
    return tuple(
        _progressed(row, newest.get((look.id, look.execution)), spent.get(look.id))
        if look.open or is_torn(look)
        else row
        for look, row in zip(looks, rows, strict=True)
    )


def _progressed(row: RunRow, call: CallProgress | None, spent: float | None) -> RunRow:
    known: dict[str, object] = {}
    if call is not None and call.iteration > (row.iteration or 0):
        known["iteration"] = call.iteration
    if call is not None and row.phase == STARTING:
        known["phase"] = call.phase
    if spent is not None:
        known["cost_usd"] = max(spent, row.cost_usd or 0.0)
    return row.model_copy(update=known)


async def with_lives(
    looks: Sequence[ExecutionInfo], rows: Sequence[RunRow], records: RecordStore
) -> tuple[RunRow, ...]:
    """The rows with what only the store knows of a run that has had several executions.

    After a reset, or as it continues as new, the server tells when its newest execution began. If
    that one was deleted, an older one is left, which the reset had terminated: how the run ended is
    in the store. While the store is away, rows say what the server knows.
    """
    if not looks:
        return tuple(rows)
    torn = [look.id for look in looks if is_torn(look)]
    try:
        began = await records.start_times([look.id for look in looks])
        stored = {row.id: row for row in await records.runs(torn)} if torn else {}
    except StoreAway:
        return tuple(rows)
    return tuple(
        _lived(row, began.get(row.id), stored.get(row.id) if is_torn(look) else None)
        for look, row in zip(looks, rows, strict=True)
    )


def _lived(row: RunRow, began: datetime | None, stored: StoredRun | None) -> RunRow:
    # The store has the time of the host that started it, whose clock may be ahead of the server's.
    earlier = began is not None and (row.started_at is None or began < row.started_at)
    told = row.model_copy(update={"started_at": began}) if earlier else row
    if stored is None or stored.ended_at is None:
        return told
    kept = row_of_stored(stored)
    known = {name: getattr(kept, name) for name in _KEPT}
    return told.model_copy(update={k: v for k, v in known.items() if v is not None})
