"""Goals and labels of runs from the store, where the server does not know them."""

from collections.abc import Sequence
from dataclasses import replace

from perdure.domain.foundation.errors import StoreAway
from perdure.domain.foundation.names import MEMO_GOAL_CHARACTERS
from perdure.domain.ports import RecordStore
from perdure.domain.run.status import RunWords
from perdure.gateway.temporal_gateway import ExecutionInfo

GOAL = "goal"


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
