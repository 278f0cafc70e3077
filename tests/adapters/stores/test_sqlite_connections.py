"""A statement takes one trip to the connection's thread, and gives what it always gave."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine

from perdure.adapters.stores import sqlite_connections
from perdure.adapters.stores.sqlite import SqliteDialect
from perdure.adapters.stores.sqlite_connections import AHEAD, OneHopConnection, connect

MANY = 3 * AHEAD + 7


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncGenerator[AsyncEngine]:
    engine = SqliteDialect().engine(make_url(f"sqlite+aiosqlite:///{tmp_path / 'numbers.sqlite'}"))
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE numbers (n INTEGER)"))
        rows = [{"n": number} for number in range(MANY)]
        await connection.execute(text("INSERT INTO numbers VALUES (:n)"), rows)
    yield engine
    await engine.dispose()


@pytest.mark.parametrize("count", [0, 1, AHEAD - 1, AHEAD, AHEAD + 1, MANY])
async def test_all_rows_come(engine: AsyncEngine, count: int) -> None:
    async with engine.connect() as connection:
        query = text("SELECT n FROM numbers WHERE n < :count ORDER BY n")
        found = (await connection.execute(query, {"count": count})).scalars().all()
    assert found == list(range(count))


@pytest.mark.parametrize("page", [1, 100, AHEAD, 2 * AHEAD])
async def test_long_results_are_read_in_pages(engine: AsyncEngine, page: int) -> None:
    async with engine.connect() as connection:
        query = text("SELECT n FROM numbers ORDER BY n").execution_options(yield_per=page)
        async with connection.stream(query) as rows:
            found = [row.n async for row in rows]
    assert found == list(range(MANY))


async def test_a_reader_that_leaves_early_holds_nothing(engine: AsyncEngine) -> None:
    async with engine.connect() as connection:
        query = text("SELECT n FROM numbers ORDER BY n").execution_options(yield_per=10)
        async with connection.stream(query) as rows:
            assert (await rows.fetchone()) == (0,)
    async with engine.begin() as connection:
        await connection.execute(text("DROP TABLE numbers"))


async def test_changed_rows_are_counted_and_returned(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        changed = await connection.execute(text("UPDATE numbers SET n = -1 WHERE n < 5"))
        assert changed.rowcount == 5
        gone = await connection.execute(text("DELETE FROM numbers WHERE n = -1 RETURNING n"))
        assert gone.scalars().all() == [-1] * 5
        left = await connection.execute(text("SELECT count(*) FROM numbers"))
        assert left.scalar_one() == MANY - 5


async def test_a_short_statement_takes_one_trip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips: list[object] = []
    inherited = OneHopConnection._execute

    async def counted(self: OneHopConnection, fn: object, *args: object) -> object:
        trips.append(fn)
        return await inherited(self, fn, *args)

    async with connect(str(tmp_path / "one.sqlite"), isolation_level=None) as connection:
        monkeypatch.setattr(OneHopConnection, "_execute", counted)
        async with connection.cursor() as cursor:
            await cursor.execute("SELECT 1 UNION SELECT 2")
            assert await cursor.fetchall() == [(1,), (2,)]
        assert len(trips) == 1


async def test_what_was_opened_for_somebody_who_left_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[sqlite3.Connection] = []
    may_open = threading.Event()

    def slowly(place: str, *, check_same_thread: bool) -> sqlite3.Connection:
        may_open.wait()
        opened.append(sqlite3.connect(place, check_same_thread=check_same_thread))
        return opened[-1]

    monkeypatch.setattr(sqlite_connections, "OPEN", slowly)
    connection = connect(str(tmp_path / "left.sqlite"), check_same_thread=False)
    opening = asyncio.ensure_future(connection)
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    may_open.set()
    await asyncio.to_thread(connection._thread.join)
    (left,) = opened
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        left.execute("SELECT 1")
