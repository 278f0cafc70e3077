"""Figures for monitoring, from both databases."""

from datetime import timedelta

import pytest
from account_books import FIRST, Books

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.figures import WHOLE, SqlFigures
from perdure.domain.llm.usage import Usage
from perdure.domain.run.figures import CallSums, RunState, added_up


@pytest.fixture
def books(database: Database) -> Books:
    return Books(database)


async def test_runs_are_counted_by_how_they_stand(books: Books, database: Database) -> None:
    await books.run("a")
    await books.run("b")
    await books.run("c", kind="agent")
    assert await SqlFigures(database).runs() == {
        RunState("refine", "ended", "accepted"): 2,
        RunState("agent", "ended", "accepted"): 1,
    }


async def test_calls_are_added_up_by_model_and_phase(books: Books, database: Database) -> None:
    await books.call("0.25")
    await books.call("0.5", confirmed=False)
    await books.call(None)
    await books.call("0", sent=False)
    await books.call("4", model="other")
    found = await SqlFigures(database).calls(since=None, until=None)
    by_model = {line.model: line for line in found}
    assert by_model["m"].model_copy(update={"phase": ""}) == CallSums(
        model="m",
        phase="",
        calls=3,
        unconfirmed=1,
        usage=Usage(input_tokens=30, output_tokens=6, cache_read_tokens=3),
        cost_usd=0.75,
    )
    assert (by_model["other"].calls, by_model["other"].cost_usd) == (1, 4.0)


async def test_parts_of_time_add_up_to_the_whole(books: Books, database: Database) -> None:
    for day in range(4):
        await books.call("1", days=day)
    figures, middle = SqlFigures(database), FIRST + timedelta(days=2)
    older = await figures.calls(since=None, until=middle)
    newer = await figures.calls(since=middle, until=None)
    assert [line.calls for line in (*older, *newer)] == [2, 2]
    whole = await figures.calls(since=None, until=None)
    assert added_up([*older, *newer]) == added_up(whole)


async def test_sizes_are_those_of_our_tables(books: Books, database: Database) -> None:
    await books.run("a")
    sizes = await SqlFigures(database).sizes()
    if database.dialect_name == "sqlite":
        assert sizes.keys() == {WHOLE}
    else:
        assert {"runs", "attempts", "blobs"} <= sizes.keys()
        assert "schema_versions" not in sizes
    assert min(sizes.values()) > 0
