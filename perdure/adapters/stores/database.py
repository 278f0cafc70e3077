"""One database behind all stores: transactions, migrations, and errors in plain words."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from sqlite3 import Error as SqliteError
from typing import Self, TypeVar

from sqlalchemy import (
    URL,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    RowMapping,
    Select,
    Table,
    and_,
    make_url,
    text,
)
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    OperationalError,
    SQLAlchemyError,
    StatementError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from perdure.adapters.stores.dialect import DatabaseDialect, R, Upsert, Work
from perdure.adapters.stores.encryption import PLAIN_CELLS, Cells, use_cells
from perdure.adapters.stores.migrations import is_current, migrate
from perdure.adapters.stores.postgresql import PostgresqlDialect
from perdure.adapters.stores.sqlite import SqliteDialect
from perdure.domain.foundation.errors import InvalidInput, PerdureError, StoreAway, StoreError

T = TypeVar("T")

# The last code point, which no name contains: it ends the range of texts with one prefix.
LAST = "\U0010ffff"
_SQLITE_DRIVER = "sqlite+aiosqlite"
_POSTGRESQL_DRIVER = "postgresql+psycopg"
_DRIVERS = {
    "sqlite": _SQLITE_DRIVER,
    _SQLITE_DRIVER: _SQLITE_DRIVER,
    "postgres": _POSTGRESQL_DRIVER,
    "postgresql": _POSTGRESQL_DRIVER,
    _POSTGRESQL_DRIVER: _POSTGRESQL_DRIVER,
}


class Database:
    """A migrated database; made by `Database.open`."""

    def __init__(
        self, *, url: URL, dialect: DatabaseDialect, engine: AsyncEngine, cells: Cells
    ) -> None:
        self._place = _place(url)
        self._dialect = dialect
        self._engine = engine
        self.cells = cells

    @classmethod
    async def open(cls, url: str | URL, *, cells: Cells = PLAIN_CELLS) -> Self:
        """Connect and migrate.

        Args:
            cells: encrypts texts that hold content.
            url: `sqlite+aiosqlite:///path` or `postgresql+psycopg://user:password@host/name`; the
                forms without driver name work too.

        Raises:
            InvalidInput: the URL names no database that Perdure can use.
            StoreError: the database cannot be reached, opened, written or migrated.
        """
        parsed = _parse(url)
        dialect = SqliteDialect() if parsed.drivername == _SQLITE_DRIVER else PostgresqlDialect()
        try:
            engine = dialect.engine(parsed)
        except OSError as error:
            raise StoreAway(
                f"The database {parsed.database} cannot be opened: {error.strerror or error}"
                f"{f' ({error.filename})' if error.filename else ''}.",
                cure="Make its folder writable, or set PERDURE_HOME to another one.",
            ) from error
        database = cls(url=parsed, dialect=dialect, engine=engine, cells=cells)
        for each in database.engines:
            use_cells(each.dialect, cells)
        try:
            await database._prepare()
        # A cancelled start too would leave threads of the driver behind.
        except BaseException:
            await database.close()
            raise
        return database

    @property
    def engine(self) -> AsyncEngine:
        """The engine, for measurements and tests."""
        return self._engine

    @property
    def engines(self) -> tuple[Engine, ...]:
        """All engines that statements go through, for tests that listen to them."""
        plain = self._dialect.plain_engine()
        return (self._engine.sync_engine, *(() if plain is None else (plain,)))

    @property
    def dialect_name(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._dialect.name

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[AsyncConnection]:
        """A transaction that may write; it is committed when the block ends."""
        with _Translated(self._dialect, self._place):
            async with self._dialect.writing(self._engine) as connection:
                yield connection

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[AsyncConnection]:
        """A read-only transaction; with SQLite it never waits for a writer."""
        with _Translated(self._dialect, self._place):
            async with self._engine.connect() as connection:
                yield connection

    async def rows(self, query: Executable) -> Sequence[RowMapping]:
        # Fetched whole: the connection goes back to the pool when the block ends.
        async with self.read() as connection:
            return (await connection.execute(query)).mappings().all()

    async def row(self, query: Executable) -> RowMapping | None:
        async with self.read() as connection:
            return (await connection.execute(query)).mappings().first()

    async def values(self, query: Select[T]) -> list[T]:
        """The first column of all rows of one query."""
        async with self.read() as connection:
            return list(await connection.scalars(query))

    async def value(self, query: Select[T]) -> T | None:
        """The first column of the first row of one query."""
        async with self.read() as connection:
            return await connection.scalar(query)

    async def change(self, statement: Executable) -> int:
        """Run one statement in a transaction of its own; returns how many rows it changed."""
        async with self.write() as connection:
            return (await connection.execute(statement)).rowcount

    async def write_whole(self, work: Work[R]) -> R:
        """Run a function in a transaction that may write; with SQLite far cheaper than `write`.

        A caller that is cancelled still waits until the transaction has ended.
        """
        with _Translated(self._dialect, self._place):
            return await self._dialect.whole(self._engine, work, writes=True)

    async def read_whole(self, work: Work[R]) -> R:
        """Run a function in a read-only transaction."""
        with _Translated(self._dialect, self._place):
            return await self._dialect.whole(self._engine, work, writes=False)

    @asynccontextmanager
    async def snapshot(self) -> AsyncGenerator[AsyncConnection]:
        """A read-only transaction in which all statements see the same state of the database."""
        async with self.read() as connection:
            # In SQLite, every read transaction sees one state anyway.
            if self.dialect_name == "postgresql":
                await connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
            yield connection

    def insert(self, table: Table) -> Upsert:
        """An insert with `on_conflict_do_nothing` and `on_conflict_do_update`."""
        return self._dialect.insert(table)

    def moment(self) -> ColumnElement[datetime]:
        """The time of a statement, by the clock that all hosts of the database share."""
        return self._dialect.moment()

    def number_in(self, column: Column[str], name: str) -> ColumnElement[int]:
        """A number in a text column that holds a JSON object."""
        return self._dialect.number_in(column, name)

    def begins(self, column: Column[str], prefix: str) -> ColumnElement[bool]:
        """Whether a text begins with `prefix`, by case; an index can serve the condition."""
        in_bytes = self._dialect.in_bytes(column)
        return and_(in_bytes >= prefix, in_bytes < prefix + LAST)

    def is_below(self, column: Column[str], run: str) -> ColumnElement[bool]:
        """Whether a column holds the id of a run below `run`."""
        return self.begins(column, f"{run}.")

    async def lock(self, connection: AsyncConnection, name: str, *, shared: bool = False) -> None:
        """Hold the lock `name`, exclusively or shared, until the transaction ends."""
        await self._dialect.lock(connection, name, shared=shared)

    def hold(self, connection: Connection, name: str, *, shared: bool = False) -> None:
        """`lock` for `read_whole` and `write_whole`."""
        self._dialect.hold(connection, name, shared=shared)

    async def close(self) -> None:
        await self._dialect.close()
        await self._engine.dispose()

    async def _prepare(self) -> None:
        with _Translated(self._dialect, self._place):
            await self._dialect.prepare(self._engine)
        # Look before writing: an up-to-date store stays readable on a full disk, and on one that
        # became read-only while a process has it open. (SQLite could not make the files beside it.)
        async with self.read() as connection:
            if await is_current(connection, self._dialect):
                return
        async with self.write() as connection:
            await migrate(connection, self._dialect)


class _Translated:
    """Translates driver errors to `StoreError` or, for text it cannot store, `InvalidInput`."""

    def __init__(self, dialect: DatabaseDialect, place: str) -> None:
        self._dialect = dialect
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        # A cancellation is no `Exception`: it must go on as one.
        if isinstance(error, Exception):
            translated = self._translate(error)
            if translated is not None:
                # No circle: what a type of a column refused is the cause of `error` already.
                raise translated from None if translated is error.__cause__ else error

    def _translate(self, error: Exception) -> PerdureError | None:
        explained = self._dialect.explain(error, place=self._place)
        if explained is not None:
            return explained
        match error:
            # SQLAlchemy wraps what a type of a column raises, such as `Content`.
            case StatementError(orig=PerdureError() as refused):
                return refused
            # Before the texts, since PostgreSQL's error for a large number is a `DataError` too.
            case OverflowError() | DataError() if _beyond_range(error):
                return InvalidInput(
                    f"A number is too large for the database {self._place}: {_fact(error)}.",
                    cure="Give a smaller one.",
                )
            case DataError() | UnicodeError() | StatementError(orig=UnicodeError()):
                return InvalidInput(
                    f"A text cannot be kept in the database {self._place}: {_fact(error)}.",
                    cure="Remove NUL characters and lone surrogates from it.",
                )
            case PoolTimeout():
                return StoreAway(
                    f"The database {self._place} was busy with too many queries of this process.",
                    cure="Try again, or run fewer steps at once.",
                )
            # The database did not work, for whatever reason: a step waits and loses nothing.
            case OperationalError():
                return StoreAway(
                    f"The database {self._place} failed: {_fact(error)}.",
                    cure="Nothing was written; try again. Temporal retries a step by itself.",
                )
            case SQLAlchemyError() | SqliteError():
                return StoreError(
                    f"The database {self._place} failed: {_fact(error)}.",
                    cure="Nothing was written; try again, and report this if it stays.",
                )
            case _:
                return None


def _place(url: URL) -> str:
    if url.drivername == _SQLITE_DRIVER:
        return url.database or ""
    # Rendering masks the password, but nothing that the query of the URL may hold.
    return url.set(drivername="postgresql", query={}).render_as_string()


def _beyond_range(error: OverflowError | DataError) -> bool:
    """Whether a number is the reason: SQLite's driver refuses it, or PostgreSQL itself."""
    return isinstance(error, OverflowError) or getattr(error.orig, "sqlstate", "") == "22003"


def _fact(error: Exception) -> str:
    # SQLAlchemy's own message quotes the statement and links to its pages, which helps nobody.
    cause = error.orig if isinstance(error, StatementError) else None
    told = cause or (next(iter(error.args), "") if isinstance(error, SQLAlchemyError) else error)
    return str(told).strip() or type(error).__name__


def _parse(url: str | URL) -> URL:
    cure = f"Write {_SQLITE_DRIVER}:///path or {_POSTGRESQL_DRIVER}://user:password@host/name."
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        # The URL may hold a password, so the message does not repeat it.
        raise InvalidInput("The database URL cannot be read.", cure=cure) from error
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise InvalidInput(f"Databases of type {parsed.drivername!r} are not supported.", cure=cure)
    return parsed.set(drivername=driver)
