"""Goals and labels of runs that the server does not know come from the store."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pytest

from perdure.domain.foundation.errors import StoreAway
from perdure.domain.run.status import RunWords
from perdure.gateway.execution_info import SEALED_GOAL, ExecutionInfo
from perdure.gateway.run_words import with_words


def execution(memo: Mapping[str, str]) -> ExecutionInfo:
    return ExecutionInfo(
        id="r1",
        execution="e1",
        kind="agent",
        ending=None,
        history_length=9,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        closed_at=None,
        facts={},
        memo=memo,
    )


class Store:
    """Knows what it is given, and notes what it is asked for."""

    def __init__(self, words: Mapping[str, RunWords], *, away: bool = False) -> None:
        self.asked: list[Sequence[str]] = []
        self._words = words
        self._away = away

    async def words(self, ids: Sequence[str]) -> dict[str, RunWords]:
        self.asked.append(ids)
        if self._away:
            raise StoreAway("The store is away.")
        return {run: self._words[run] for run in ids if run in self._words}


LONG = "word\n" * 200


@pytest.mark.parametrize(
    ("memo", "stored", "told"),
    [
        ({}, RunWords(goal="a  b"), {"goal": "a b"}),
        ({}, RunWords(goal="a", label="x"), {"goal": "a", "label": "x"}),
        ({}, RunWords(goal=LONG), {"goal": " ".join(LONG.split())[:400]}),
        ({"spec": "s"}, RunWords(goal="a"), {"goal": "a", "spec": "s"}),
        ({}, None, {}),
    ],
    ids=["goal", "label", "long", "another memo", "unknown to the store"],
)
async def test_a_run_without_a_goal_gets_that_of_the_store(
    memo: Mapping[str, str], stored: RunWords | None, told: Mapping[str, str]
) -> None:
    store = Store({} if stored is None else {"r1": stored})
    [found] = await with_words([execution(memo)], store)  # type: ignore[arg-type]
    assert found.memo == told


@pytest.mark.parametrize("goal", ["known", SEALED_GOAL])
async def test_what_the_server_knows_is_not_asked_of_the_store(goal: str) -> None:
    store = Store({"r1": RunWords(goal="other")})
    [found] = await with_words([execution({"goal": goal})], store)  # type: ignore[arg-type]
    assert (found.memo, store.asked) == ({"goal": goal}, [])


async def test_while_the_store_is_away_a_run_is_listed_without_a_goal() -> None:
    store = Store({}, away=True)
    assert await with_words([execution({})], store) == [execution({})]  # type: ignore[arg-type]
