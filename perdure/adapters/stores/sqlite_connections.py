"""Connections to SQLite that switch to a thread as seldom as possible.

A thread switch costs more processor time than most of our statements. aiosqlite switches to open a
cursor, to execute, to fetch and to close; `OneHopConnection` does all four in one switch. What a
step does on every turn of a loop is a transaction of many statements: `WholeTransactions` runs all
of it in one switch, with Python's own driver.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeVar

import aiosqlite
from aiosqlite.core import Connection as AioConnection
from sqlalchemy import Connection, Engine

R = TypeVar("R")

# Rows that come with the statement, which saves a trip to the thread for each of them.
AHEAD = 256
# The default of `aiosqlite`, whose constructor wants a value; our cursors do not use it.
ITER_CHUNK = 64
# One writer, since writers take turns, and three readers.
THREADS = 4

# SQLAlchemy chooses the options, so their types are not checked here.
OPEN: Callable[..., sqlite3.Connection] = sqlite3.connect

Row = Sequence[object]
Parameters = Sequence[object]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The result of a statement; `rest` is the open cursor if there are more rows than `rows`."""

    description: object
    rowcount: int
    lastrowid: int | None
    rows: list[Row]
    rest: sqlite3.Cursor | None


class OneHopConnection(AioConnection):
    """An `aiosqlite` connection whose cursors run a statement in one thread switch.

    If the caller is cancelled while it opens, the connection is closed; `aiosqlite` would leak it.
    """

    def __init__(self, connector: Callable[[], sqlite3.Connection], chunk: int) -> None:
        self._opened: sqlite3.Connection | None = None

        def opened() -> sqlite3.Connection:
            self._opened = connector()
            return self._opened

        super().__init__(opened, chunk)

    def stop(self) -> "asyncio.Future[None] | None":
        """Close the connection, and end the thread."""
        # Through the queue: only the thread that opened a connection may close it.
        self._tx.put_nowait((None, self._close))
        return super().stop()

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()  # does nothing if it is closed already

    async def rollback(self) -> None:
        """Roll back; without an open transaction, no thread switch is made."""
        if self._conn.in_transaction:
            await super().rollback()

    def cursor(self) -> "OneHopCursor":  # pyright: ignore[reportIncompatibleMethodOverride]
        """A cursor; SQLite's own cursor is opened only when it executes."""
        return OneHopCursor(self)

    async def run(self, sql: str, parameters: Parameters) -> _Outcome:
        """Execute a statement, and fetch its first rows."""
        return await self._execute(partial(self._run, sql, parameters))

    async def run_many(self, sql: str, parameters: Iterable[Parameters]) -> int:
        """Execute once for each of the parameters; returns the number of changed rows."""
        return await self._execute(partial(self._run_many, sql, parameters))

    async def more(self, cursor: sqlite3.Cursor, size: int | None) -> list[Row]:
        """The next rows of an open cursor; all of them if `size` is None."""
        fetch = cursor.fetchall if size is None else partial(cursor.fetchmany, size)
        return await self._execute(fetch)

    async def shut(self, cursor: sqlite3.Cursor) -> None:
        """Close a cursor that was not read to its end."""
        await self._execute(cursor.close)

    def _run(self, sql: str, parameters: Parameters) -> _Outcome:
        cursor = self._conn.execute(sql, parameters)
        # For a statement without rows, `fetchmany` returns an empty list.
        rows = cursor.fetchmany(AHEAD)
        ended = len(rows) < AHEAD
        # Read `rowcount` after the rows: with RETURNING, it is right only when all are fetched.
        outcome = _Outcome(
            description=cursor.description,
            rowcount=cursor.rowcount,
            lastrowid=cursor.lastrowid,
            rows=rows,
            rest=None if ended else cursor,
        )
        if ended:
            cursor.close()
        return outcome

    def _run_many(self, sql: str, parameters: Iterable[Parameters]) -> int:
        cursor = self._conn.executemany(sql, parameters)
        changed = cursor.rowcount
        cursor.close()
        return changed


class OneHopCursor:
    """The cursor interface that SQLAlchemy needs."""

    arraysize = 1

    def __init__(self, connection: OneHopConnection) -> None:
        self._connection = connection
        self._rows: list[Row] = []
        self._rest: sqlite3.Cursor | None = None
        self.description: object = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def execute(self, sql: str, parameters: Parameters = ()) -> Self:
        await self.close()
        outcome = await self._connection.run(sql, parameters)
        self.description = outcome.description
        self.rowcount, self.lastrowid = outcome.rowcount, outcome.lastrowid
        self._rows, self._rest = outcome.rows, outcome.rest
        return self

    async def executemany(self, sql: str, parameters: Iterable[Parameters]) -> Self:
        await self.close()
        self.description = None
        self.rowcount = await self._connection.run_many(sql, parameters)
        return self

    async def fetchall(self) -> list[Row]:
        return await self._fetch(None)

    async def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next `size` rows, or fewer at the end."""
        return await self._fetch(size or self.arraysize)

    async def fetchone(self) -> Row | None:
        return next(iter(await self._fetch(1)), None)

    async def close(self) -> None:
        """Drop rows that were not fetched."""
        self._rows = []
        if (rest := self._rest) is not None:
            self._rest = None
            await self._connection.shut(rest)

    async def _fetch(self, size: int | None) -> list[Row]:
        found, self._rows = self._rows[:size], [] if size is None else self._rows[size:]
        lacking = None if size is None else size - len(found)
        if self._rest is not None and lacking != 0:
            found += await self._connection.more(self._rest, lacking)
        return found


def connect(database: str, **options: object) -> aiosqlite.Connection:
    """Make a connection that is not open yet; SQLAlchemy calls it with arguments of `sqlite3`."""
    connection = OneHopConnection(partial(OPEN, database, **options), ITER_CHUNK)
    # SQLAlchemy sets this too: pooled connections must not keep the process from ending.
    connection._thread.daemon = True  # pyright: ignore[reportPrivateUsage]
    return connection


class WholeTransactions:
    """Runs functions that take a connection, each in a transaction of its own, in threads.

    Args:
        engine: a synchronous engine with one connection for each thread.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="perdure-sqlite")

    async def run(self, engine: Engine, work: Callable[[Connection], R]) -> R:
        """Run `work` and return its result; a cancelled caller still waits until it has ended.

        Args:
            engine: ours, or one derived from it with other execution options.
            work: is committed when it returns, and rolled back when it raises.
        """
        loop = asyncio.get_running_loop()
        done = loop.run_in_executor(self._threads, partial(_transacted, engine, work))
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            # The thread cannot be cancelled. Wait for it, because the caller holds the writers'
            # lock and would let the next writer in too early.
            while not done.done():
                try:
                    await asyncio.wait({done})
                except asyncio.CancelledError:
                    continue
            raise

    async def close(self) -> None:
        """Close all connections, and end the threads."""
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._threads.shutdown()
        self.engine.dispose()


def _transacted(engine: Engine, work: Callable[[Connection], R]) -> R:
    with engine.begin() as connection:
        return work(connection)
