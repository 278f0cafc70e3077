"""What differs between SQLite and PostgreSQL; all other code of the stores is shared."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol, TypeVar

from sqlalchemy import URL, Column, ColumnElement, Connection, Engine, Table
from sqlalchemy.dialects.postgresql import Insert as PostgresqlInsert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from perdure.domain.foundation.errors import StoreError

R = TypeVar("R")
Upsert = SqliteInsert | PostgresqlInsert
# The body of a transaction, run as one function.
Work = Callable[[Connection], R]


class DatabaseDialect(Protocol):
    """One database product."""

    name: str
    bytes_type: str

    def engine(self, url: URL) -> AsyncEngine:
        """Make the engine; nothing is connected yet."""
        ...

    def writing(self, engine: AsyncEngine) -> AbstractAsyncContextManager[AsyncConnection]:
        """A transaction that may write."""
        ...

    def plain_engine(self) -> Engine | None:
        """The engine of whole transactions; None if it is the same as for all others."""
        ...

    async def whole(self, engine: AsyncEngine, work: Work[R], *, writes: bool) -> R:
        """Run a whole transaction with as few thread switches as this driver allows."""
        ...

    async def close(self) -> None:
        """Close everything that was opened besides the engine."""
        ...

    async def prepare(self, engine: AsyncEngine) -> None:
        """Connect once, and make settings that persist in the database."""
        ...

    async def lock(self, connection: AsyncConnection, name: str, *, shared: bool = False) -> None:
        """Hold the lock `name` until the transaction ends."""
        ...

    def hold(self, connection: Connection, name: str, *, shared: bool = False) -> None:
        """`lock` for whole transactions, which use a synchronous connection."""
        ...

    def insert(self, table: Table) -> Upsert:
        """An insert that knows `on_conflict_do_nothing` and `on_conflict_do_update`."""
        ...

    def moment(self) -> ColumnElement[datetime]:
        """The time of the statement, by the clock that all hosts of the database share."""
        ...

    def number_in(self, column: Column[str], name: str) -> ColumnElement[int]:
        """A number in a text column that holds a JSON object."""
        ...

    def in_bytes(self, column: Column[str]) -> ColumnElement[str]:
        """A text column that is compared by bytes, whatever the collation of the database."""
        ...

    def explain(self, error: Exception, *, place: str) -> StoreError | None:
        """What a driver's error means, in plain words; None for an unknown error."""
        ...
