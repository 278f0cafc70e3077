"""What lists of runs take from the store: goals, labels, and how far open runs have come.

A run tells the server of its progress by search attributes, and each update is an event in its
history. So an agent, which takes many short turns, tells it rarely; the journal knows more.
"""

from collections.abc import Sequence
from dataclasses import replace

from perdure.domain.budget.journal import CallProgress, Journal
from perdure.domain.foundation.errors import StoreAway
from perdure.domain.foundation.names import MEMO_GOAL_CHARACTERS
from perdure.domain.ports import RecordStore
from perdure.domain.run.status import RunWords
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.types import RunRow

GOAL = "goal"
STARTING = "starting"


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
    """The rows of these executions, with what the journal knows of those that are open.

    While the store is away, they say what the server knows.
    """
    still_open = [look.id for look in looks if look.open]
    if not still_open:
        return tuple(rows)
    try:
        calls = await journal.progress(still_open)
        spent = await journal.spent([look.id for look in looks if look.open and not look.parent])
    except StoreAway:
        return tuple(rows)
    newest = {(call.run, call.execution): call for call in calls}
    return tuple(
        _progressed(row, newest.get((look.id, look.execution)), spent.get(look.id))
        if look.open
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
