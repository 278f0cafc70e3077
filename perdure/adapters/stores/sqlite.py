"""SQLite: one file, one host, many processes."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from sqlalchemy import (
    URL,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Integer,
    Table,
    create_engine,
    event,
    func,
    literal,
)
from sqlalchemy.dialects.sqlite import Insert
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.columns import UtcTime
from perdure.adapters.stores.dialect import R, Work
from perdure.adapters.stores.sqlite_connections import THREADS, WholeTransactions, connect
from perdure.domain.foundation.errors import InvalidInput, StoreAway, StoreError
from perdure.domain.installation.access import digest_of

BUSY_TIMEOUT_MS = 10_000
# Small, since each of a dozen connections has its own cache, and the system caches the file too.
CACHE_KIB = 512
# A transaction that reads first and writes later fails at once with SQLITE_BUSY, whatever the
# timeout, if another one has written meanwhile. So writers take the write lock at the beginning.
IMMEDIATE = "BEGIN IMMEDIATE"
WAL_TRIES = 100
WAL_PAUSE_SECONDS = 0.1

_MEANINGS = {
    "SQLITE_FULL": (
        "is full: the disk or the limit set for the file has no room left; nothing was written",
        "Free disk space (perdure gc drops what no run needs) and try again.",
    ),
    "SQLITE_BUSY": (
        f"was locked by another process for more than {BUSY_TIMEOUT_MS // 1000} s;"
        " nothing was written",
        "Try again; if it stays so, find the process that holds the file open and end it.",
    ),
    "SQLITE_READONLY": (
        "cannot be written: the file or its folder is read-only; nothing was written",
        "Give the user that runs Perdure write access to the file and its folder.",
    ),
    "SQLITE_CANTOPEN": (
        "cannot be opened",
        "Check that the folder exists and that the user that runs Perdure may write there.",
    ),
    "SQLITE_IOERR": (
        "could not be read or written by the system; nothing was written",
        "Check the disk (dmesg, free space, limits on file size) and try again.",
    ),
    "SQLITE_CORRUPT": (
        "is damaged",
        "Restore the file from a backup; `sqlite3 FILE .recover` saves what is readable.",
    ),
    "SQLITE_NOTADB": ("is not an SQLite database", "Name another file, or move this one away."),
}


# Errors that waiting cannot cure.
_BROKEN = frozenset({"SQLITE_CORRUPT", "SQLITE_NOTADB"})


class SqliteDialect:
    """WAL, full sync, and `BEGIN IMMEDIATE` for every transaction that may write."""

    name = "sqlite"
    bytes_type = "BLOB"

    def __init__(self) -> None:
        # SQLite waits for a lock by polling, which is unfair. Writers of one process queue here.
        self._turn = asyncio.Lock()
        self._whole: WholeTransactions | None = None

    def engine(self, url: URL) -> AsyncEngine:
        if not url.database or url.database == ":memory:":
            raise InvalidInput(
                f"The database URL {url.render_as_string()} names no file.",
                cure="Write sqlite+aiosqlite:///absolute/path.sqlite.",
            )
        _make_private(Path(url.database))
        # Parameters are hidden, since errors must not quote content. Without an isolation level,
        # Python's driver begins no transactions by itself; `_begin` does.
        engine = create_async_engine(
            url,
            hide_parameters=True,
            connect_args={"isolation_level": None, "async_creator_fn": connect},
        )
        plain = create_engine(
            url.set(drivername="sqlite+pysqlite"),
            hide_parameters=True,
            pool_size=THREADS,
            connect_args={"isolation_level": None},
        )
        for each in (engine.sync_engine, plain):
            event.listen(each, "connect", _set_up)
            event.listen(each, "begin", _begin)
        self._whole = WholeTransactions(plain)
        return engine

    def plain_engine(self) -> Engine:
        return self._opened().engine

    @asynccontextmanager
    async def writing(self, engine: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
        writer = engine.execution_options(perdure_begin=IMMEDIATE)
        # The turn first: `begin` would hold a connection, and poll the lock, while others write.
        async with self._turn, writer.begin() as connection:
            yield connection

    async def whole(self, engine: AsyncEngine, work: Work[R], *, writes: bool) -> R:
        transactions = self._opened()
        if not writes:
            return await transactions.run(transactions.engine, work)
        writer = transactions.engine.execution_options(perdure_begin=IMMEDIATE)
        async with self._turn:
            return await transactions.run(writer, work)

    async def close(self) -> None:
        if self._whole is not None:
            await self._whole.close()

    def _opened(self) -> WholeTransactions:
        if self._whole is None:
            raise RuntimeError("The dialect of SQLite was asked before it made an engine.")
        return self._whole

    async def prepare(self, engine: AsyncEngine) -> None:
        # Retry: the first switch of a file to WAL fails at once, whatever the timeout, while
        # another process makes the same switch.
        for _ in range(WAL_TRIES):
            try:
                async with engine.connect():
                    return
            except (DBAPIError, sqlite3.Error) as error:
                if _code(error) != "SQLITE_BUSY":
                    raise
                await asyncio.sleep(WAL_PAUSE_SECONDS)
        # Once more, so that whoever waits is told the error.
        async with engine.connect():
            return

    async def lock(self, connection: AsyncConnection, name: str, *, shared: bool = False) -> None:
        """Do nothing: SQLite lets only one writer into the file."""

    def hold(self, connection: Connection, name: str, *, shared: bool = False) -> None:
        """Do nothing, like `lock`."""

    def insert(self, table: Table) -> Insert:
        return Insert(table)

    def moment(self) -> ColumnElement[datetime]:
        return literal(utc_now(), UtcTime)  # one host, one clock

    def number_in(self, column: Column[str], name: str) -> ColumnElement[int]:
        return func.json_extract(column, f"$.{name}", type_=Integer)

    def in_bytes(self, column: Column[str]) -> ColumnElement[str]:
        return column

    def explain(self, error: Exception, *, place: str) -> StoreError | None:
        meaning = _MEANINGS.get(_code(error))
        if meaning is None:
            return None
        fact, cure = meaning
        kind = StoreError if _code(error) in _BROKEN else StoreAway
        return kind(f"The database {place} {fact}.", cure=cure)


def _make_private(path: Path) -> None:
    # Goals and replies are private: other users of the machine get no access.
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():  # a disk may be read-only by now
        path.touch(mode=0o600)
    # The files beside it count as well: they hold the newest commits.
    for end in ("", "-wal", "-shm"):
        beside = path.with_name(f"{path.name}{end}")
        if beside.exists() and beside.stat().st_mode & 0o077:
            beside.chmod(0o600)


def _set_up(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    # The timeout comes first, since the switch to WAL needs a lock.
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    cursor.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
    cursor.execute("PRAGMA journal_mode=WAL")
    # In WAL mode, NORMAL could lose the newest commits in a power failure, such as a paid reply.
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()
    # For migrations: SQLite has no such function of its own.
    connection.create_function("sha256_hex", 1, digest_of, deterministic=True)


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("perdure_begin", "BEGIN"))


def _code(error: BaseException) -> str:
    """The primary result code of an error, such as `SQLITE_FULL`; empty if it has none."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    name: str | None = getattr(origin, "sqlite_errorname", None)
    # Extended codes, such as SQLITE_IOERR_WRITE, begin with the primary one.
    return "_".join(name.split("_")[:2]) if name else ""
