"""Text of model calls in flight, in both stores: one row per call, found from the runs above."""

from datetime import UTC, datetime, timedelta

import pytest
from live_calls import live_call

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.live_texts import LEFT_AFTER, SqlLiveTexts

START = datetime(2026, 11, 23, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def texts(database: Database, clock: Clock) -> SqlLiveTexts:
    return SqlLiveTexts(database, now=clock)


async def test_a_call_has_one_row_which_its_newest_attempt_owns(texts: SqlLiveTexts) -> None:
    assert await texts.below("r") == []
    second = live_call(attempt=2, text="second")
    await texts.show([second])
    await texts.show([live_call(attempt=1, text="a late first")])
    await texts.drop([live_call(attempt=1)])
    assert await texts.below("r") == [second]
    longer = live_call(attempt=2, start=7, text="longer", ended=True)
    await texts.show([longer])
    assert await texts.below("r") == [longer]
    elsewhere = live_call(key="k of a lost worker's successor", text="again")
    await texts.show([elsewhere])
    await texts.drop([longer])
    assert await texts.below("r") == [elsewhere]
    await texts.drop([elsewhere])
    await texts.drop([elsewhere])
    assert await texts.below("r") == []


async def test_a_run_is_seen_with_the_runs_below_it(texts: SqlLiveTexts) -> None:
    below = live_call("below", run="r.w1-reader", text="deep")
    own = live_call(text="own")
    await texts.show([below, live_call("other", run="r.W1"), live_call("near", run="r2")])
    await texts.show([own])
    assert await texts.below("r") == [live_call("other", run="r.W1"), below, own]
    assert await texts.below("r.w1-reader") == [below]


async def test_a_row_takes_what_a_model_says(texts: SqlLiveTexts) -> None:
    await texts.show([live_call(text="a\x00b\ud800c")])
    assert [call.text for call in await texts.below("r")] == ["a\ufffdb\ufffdc"]


async def test_a_watched_run_has_a_number_that_watching_raises(texts: SqlLiveTexts) -> None:
    assert await texts.watched() == {}
    await texts.watch("r")
    first = await texts.watched()
    await texts.watch("r")
    await texts.watch("s")
    second = await texts.watched()
    assert second["r"] > first["r"]
    assert set(second) == {"r", "s"}


async def test_what_the_dead_left_behind_is_dropped(texts: SqlLiveTexts, clock: Clock) -> None:
    await texts.show([live_call("old")])
    await texts.watch("old")
    clock.now += LEFT_AFTER
    young = live_call("young")
    await texts.show([young])
    await texts.watch("young")
    await texts.prune()
    assert await texts.below("r") == [young]
    assert set(await texts.watched()) == {"young"}
