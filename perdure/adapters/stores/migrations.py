"""Migrates a database to the schema of this version, with numbered SQL files and a version table.

A file is `NNNN_name.sql` for both databases, or `NNNN_name.sqlite.sql` and
`NNNN_name.postgresql.sql`. Statements end with a semicolon and a blank line, so a trigger may hold
semicolons of its own. A released file is never edited.

A file that older code can live with, as it only adds what that need not know, has a line
`-- serves: NNNN`: the oldest schema whose code may go on with the database. So a rollback is
possible. Without that line, older code is refused from then on.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.dialect import DatabaseDialect
from perdure.domain.foundation.errors import StoreError

_FILE = re.compile(r"(?P<number>\d{4})_(?P<name>[a-z_]+)(\.(?P<dialect>sqlite|postgresql))?\.sql")
_SERVES = re.compile(r"^-- serves: (\d{4})$", re.MULTILINE)
_END = re.compile(r";\s*(?:\n\s*\n|\Z)")

_VERSIONS = "CREATE TABLE IF NOT EXISTS schema_versions (number BIGINT PRIMARY KEY, name TEXT)"


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the schema."""

    number: int
    name: str
    statements: tuple[str, ...]
    serves: int | None = None


@cache
def migrations(dialect_name: str) -> tuple[Migration, ...]:
    """All migrations for one dialect, in order."""
    found: list[Migration] = []
    for file in resources.files("perdure.adapters.stores").joinpath("schema").iterdir():
        match = _FILE.fullmatch(file.name)
        if match and match["dialect"] in (None, dialect_name):
            sql = file.read_text(encoding="utf-8")
            found.append(_migration(match, sql))
    return tuple(sorted(found, key=lambda step: step.number))


def _migration(name: re.Match[str], sql: str) -> Migration:
    serves = _SERVES.search(sql)
    return Migration(
        number=int(name["number"]),
        name=name["name"],
        statements=split_statements(sql),
        serves=None if serves is None else int(serves[1]),
    )


async def is_current(connection: AsyncConnection, dialect: DatabaseDialect) -> bool:
    """Whether the schema is up to date; only reads, and raises like `migrate`."""
    if not await connection.run_sync(_is_begun):
        return False
    return not await _missing(connection, dialect)


def _is_begun(connection: Connection) -> bool:
    # In the schema where `migrate` makes it: another one on the path holds another installation.
    schema = connection.dialect.default_schema_name
    return inspect(connection).has_table("schema_versions", schema=schema)


async def migrate(connection: AsyncConnection, dialect: DatabaseDialect) -> None:
    """Apply missing migrations in the caller's write transaction.

    Several processes may start at once: they queue at the lock, and the later ones find nothing to
    do. Raises `StoreError` if the database is newer than this program can live with.
    """
    # The lock comes first: in PostgreSQL, concurrent CREATE TABLE IF NOT EXISTS can still fail.
    await dialect.lock(connection, "perdure schema")
    await connection.execute(text(_VERSIONS))
    for step in await _missing(connection, dialect):
        for statement in step.statements:
            # Not by `text`, which would take a colon in a statement for a parameter.
            await connection.exec_driver_sql(statement.replace("{bytes}", dialect.bytes_type))
        await connection.execute(
            text("INSERT INTO schema_versions (number, name) VALUES (:number, :name)"),
            {"number": step.number, "name": step.name},
        )
        # Apart from the row, since an earlier step has made the column.
        if step.serves is not None:
            await connection.execute(
                text("UPDATE schema_versions SET serves = :serves WHERE number = :number"),
                {"number": step.number, "serves": step.serves},
            )


async def _missing(connection: AsyncConnection, dialect: DatabaseDialect) -> list[Migration]:
    # Check every number: the highest one does not prove that all below it were applied.
    applied = set(await connection.scalars(text("SELECT number FROM schema_versions")))
    steps = migrations(dialect.name)
    current, newest = max(applied, default=0), steps[-1].number
    if current > newest and not await _serves(connection, newest):
        raise StoreError(
            f"The database has schema {current}; this version of Perdure knows {newest}.",
            cure="Run the newer version of Perdure that wrote it, or name another database.",
        )
    return [step for step in steps if step.number not in applied]


async def _serves(connection: AsyncConnection, newest: int) -> bool:
    """Whether code that knows schemas up to `newest` can live with all that came after."""
    beyond = "SELECT coalesce(serves, number) FROM schema_versions WHERE number > :newest"
    oldest = await connection.scalars(text(beyond), {"newest": newest})
    return all(number <= newest for number in oldest)


def split_statements(sql: str) -> tuple[str, ...]:
    """The statements of a file, without comments and final semicolons."""
    lines = [line for line in sql.splitlines() if not line.startswith("--")]
    return tuple(part.strip() for part in _END.split("\n".join(lines)) if part.strip())
