"""PostgreSQL through psycopg: a store that many hosts share."""

from contextlib import AbstractAsyncContextManager
from datetime import datetime

from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Table,
    cast,
    func,
    text,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import Insert
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from perdure.adapters.stores.columns import UtcTime
from perdure.adapters.stores.dialect import R, Work
from perdure.domain.foundation.errors import InvalidInput, StoreAway, StoreError

CONNECT_TIMEOUT_SECONDS = 10
LOCK_TIMEOUT_MS = 10_000

_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")
_LOCK_SHARED = text("SELECT pg_advisory_xact_lock_shared(hashtextextended(:name, 0))")

_AGAIN = "Try again; Temporal retries a step by itself."
_FULL = (
    "has no room left; nothing was written",
    "Free disk space on the database server (perdure gc drops what no run needs) and try again.",
)
_BUSY = ("gave way to another writer; nothing was written", _AGAIN)
_LOCKED = (
    f"held a row locked for more than {LOCK_TIMEOUT_MS // 1000} s; nothing was written",
    "Look for a long transaction in pg_stat_activity, and try again.",
)
_READ_ONLY = (
    "is read-only; nothing was written",
    "Point the database URL at the primary, or end the recovery mode.",
)
REFUSED_LOGIN = "refused the login or the rights"
_REFUSED = (
    REFUSED_LOGIN,
    "Check user, password, database name and grants in the database URL.",
)
_AWAY = ("cannot be reached", "Check that the server runs and that the database URL is right.")
_NO_CONNECTION = (
    "has no connection left",
    "Raise max_connections or the limit of the role, or run fewer workers.",
)
_MEANINGS = {
    "53100": _FULL,
    "53200": ("is out of memory; nothing was written", _AGAIN),
    "53300": _NO_CONNECTION,
    "40001": _BUSY,
    "40P01": _BUSY,
    "55P03": _LOCKED,
    "25006": _READ_ONLY,
    "25P03": (
        "ended a transaction that idled longer than its idle_in_transaction_session_timeout;"
        " nothing was written",
        "Raise it for Perdure's role: ALTER ROLE NAME SET idle_in_transaction_session_timeout = 0.",
    ),
    "28000": _REFUSED,
    "28P01": _REFUSED,
    "42501": _REFUSED,
    "3D000": _REFUSED,
    "57014": (
        "ended a statement that took longer than its statement_timeout; nothing was written",
        "Raise it for Perdure's role: ALTER ROLE NAME SET statement_timeout = 0.",
    ),
    "57P01": _AWAY,
    "57P02": _AWAY,
    "57P03": _AWAY,
}


# Errors of a server before the connection is made have no SQLSTATE, only a message.
# English alone: what a server says in another language (`lc_messages`) counts as away.
_AT_LOGIN = (
    ("too many connections", _NO_CONNECTION),
    ("too many clients", _NO_CONNECTION),
    ("remaining connection slots", _NO_CONNECTION),
    ("authentication failed", _REFUSED),
    ("not permitted to log in", _REFUSED),
    ("no pg_hba.conf entry", _REFUSED),
    ("does not exist", _REFUSED),
)
_FATAL = "FATAL:"


class PostgresqlDialect:
    """Read-committed transactions; decisions that must not overlap take an advisory lock."""

    name = "postgresql"
    bytes_type = "BYTEA"

    def engine(self, url: URL) -> AsyncEngine:
        options = f"-c lock_timeout={LOCK_TIMEOUT_MS} -c timezone=UTC"
        try:
            return create_async_engine(
                url,
                hide_parameters=True,  # errors must not quote content
                pool_pre_ping=True,  # a restart of the server leaves dead connections in the pool
                connect_args={
                    "connect_timeout": CONNECT_TIMEOUT_SECONDS,
                    # Options of the URL come last, so that they win over ours.
                    "options": " ".join(filter(None, [options, _given_options(url)])),
                },
            )
        except ModuleNotFoundError as error:
            raise InvalidInput(
                f"The database URL {url.render_as_string()} needs psycopg, which is missing.",
                cure="Install it with: pip install 'perdure[postgres]'.",
            ) from error

    def writing(self, engine: AsyncEngine) -> AbstractAsyncContextManager[AsyncConnection]:
        return engine.begin()

    def plain_engine(self) -> None:
        return None

    async def whole(self, engine: AsyncEngine, work: Work[R], *, writes: bool) -> R:
        async with engine.begin() if writes else engine.connect() as connection:
            return await connection.run_sync(work)

    async def close(self) -> None:
        """Do nothing: the engine is all that was opened."""

    async def prepare(self, engine: AsyncEngine) -> None:
        async with engine.connect():
            return

    async def lock(self, connection: AsyncConnection, name: str, *, shared: bool = False) -> None:
        await connection.execute(_LOCK_SHARED if shared else _LOCK, {"name": name})

    def hold(self, connection: Connection, name: str, *, shared: bool = False) -> None:
        connection.execute(_LOCK_SHARED if shared else _LOCK, {"name": name})

    def insert(self, table: Table) -> Insert:
        return Insert(table)

    def moment(self) -> ColumnElement[datetime]:
        # The text that `UtcTime` writes; clocks of hosts may be hours apart.
        # Not `now()`, when the transaction began: it may have waited for a lock since.
        utc = func.timezone("UTC", func.clock_timestamp())
        text = func.to_char(utc, 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')
        return type_coerce(text, UtcTime)

    def number_in(self, column: Column[str], name: str) -> ColumnElement[int]:
        return cast(cast(column, JSON)[name].as_string(), BigInteger)

    def in_bytes(self, column: Column[str]) -> ColumnElement[str]:
        return column.collate("C")

    def explain(self, error: Exception, *, place: str) -> StoreError | None:
        if not isinstance(error, DBAPIError):
            return None
        state: str | None = getattr(error.orig, "sqlstate", None)
        # Class 08, and of what the driver itself says these two, mean that there is no connection.
        # A text with NUL has no SQLSTATE either: the driver refuses to send it.
        away = isinstance(error, (OperationalError, InterfaceError))
        unconnected = away if state is None else state.startswith("08")
        known = _refused_with(str(error.orig)) if unconnected else _MEANINGS.get(state or "")
        if known is None:
            return None
        fact, cure = known
        return StoreAway(f"The database {place} {fact}.", cure=cure)


def _refused_with(said: str) -> tuple[str, str]:
    """Fact and hint for a connection that failed: what the server said, or that none answers."""
    # The last one, as the driver tries each address of a host and joins what they said.
    words = said.rpartition(_FATAL)[2].strip().splitlines() if _FATAL in said else []
    if not words:
        return _AWAY
    fact, cure = next((meant for part, meant in _AT_LOGIN if part in words[0]), _AWAY)
    return f"{fact} ({words[0]})", cure


def _given_options(url: URL) -> str:
    given = url.query.get("options", "")
    return given if isinstance(given, str) else " ".join(given)
