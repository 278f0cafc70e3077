"""What differs between the databases; everything else in the stores is one query layer."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from sqlalchemy import URL, Column, ColumnElement, Connection, Engine, Table
from sqlalchemy.dialects.postgresql import Insert as PostgresqlInsert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from perdure.domain.foundation.errors import StoreError

R = TypeVar("R")
Upsert = SqliteInsert | PostgresqlInsert
# All that a transaction does.
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
        """The engine that whole transactions go through; None where it is that of all others."""
        ...

    async def whole(self, engine: AsyncEngine, work: Work[R], *, writes: bool) -> R:
        """Do a whole transaction, in as few trips as this database allows."""
        ...

    async def close(self) -> None:
        """Close what was opened beside the engine."""
        ...

    async def prepare(self, engine: AsyncEngine) -> None:
        """Connect once, and set what lasts in the database itself."""
        ...

    async def lock(self, connection: AsyncConnection, name: str, *, shared: bool = False) -> None:
        """Hold the lock `name` until the transaction ends."""
        ...

    def hold(self, connection: Connection, name: str, *, shared: bool = False) -> None:
        """`lock` for whole transactions."""
        ...

    def insert(self, table: Table) -> Upsert:
        """An insert that knows `on_conflict_do_nothing` and `on_conflict_do_update`."""
        ...

    def number_in(self, column: Column[str], name: str) -> ColumnElement[int]:
        """A number inside of a text column that holds a JSON object."""
        ...

    def in_bytes(self, column: Column[str]) -> ColumnElement[str]:
        """A text that is compared by its bytes, whatever the language of the database."""
        ...

    def explain(self, error: Exception, *, place: str) -> StoreError | None:
        """Say in plain words what a driver's error means, or None when it is not known."""
        ...
