"""A store as it is after very many runs: rows in every table that grows, of runs of long ago."""

from sqlalchemy import BigInteger, Boolean, Double, Integer, LargeBinary, Table, text

from perdure.adapters.stores.columns import UtcTime
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import metadata

# One row each, or one a folder, one a model, or one a run that was watched within the hour.
SMALL = frozenset({
    "installation", "workspaces", "signing_keys", "encryption_keys", "memory_totals",
    "live_watches", "run_totals", "call_totals",
})  # fmt: skip
LONG_AGO = "'2020-01-01T00:00:00.000000+00:00'"
WORDS = {
    ("attempts", "state"): "'answered'",
    ("attempts", "counted"): "true",
    ("attempts", "model"): "CASE WHEN n % 3 = 0 THEN 'ledger-model' ELSE 'model-' || n END",
    ("todos", "status"): "'pending'",
    ("todos", "scope"): "'project'",
    ("artifacts", "scope"): "'project'",
    ("sessions", "state"): "'open'",
    ("memory", "kind"): "'episode'",
    ("runs", "result"): "NULL",
    ("runs", "status"): "NULL",
}
# The database numbers these itself.
NUMBERED = frozenset({("memory", "number"), ("schedule_bookings", "number")})
RECOUNT = (
    "UPDATE memory_totals SET entries = (SELECT count(*) FROM memory),"
    " length = (SELECT sum(length) FROM memory)"
)
GROWING = tuple(table for table in metadata.sorted_tables if table.name not in SMALL)


async def grow(database: Database, rows: int) -> None:
    """Write so many rows into each table that grows, and let the database look at them."""
    # What others refer to comes first.
    first = ("attempts", "memory", "made_tools")
    ordered = sorted(GROWING, key=lambda table: table.name not in first)
    async with database.write() as connection:
        if database.dialect_name == "postgresql":
            # One row counts all memory: so many changes of it in one transaction take for ever.
            await connection.execute(text("SET LOCAL session_replication_role = replica"))
        for table in ordered:
            await connection.execute(text(_filling(table, rows, database.dialect_name)))
        await connection.execute(text(RECOUNT))
    async with database.write() as connection:
        await connection.execute(text("ANALYZE"))


def _filling(table: Table, rows: int, dialect: str) -> str:
    given = [each.name for each in table.columns if (table.name, each.name) not in NUMBERED]
    names = ", ".join(f'"{name}"' for name in given)
    values = ", ".join(_value(table, name, dialect) for name in given)
    if dialect == "sqlite":
        numbers = (
            "WITH RECURSIVE numbers (n) AS"
            f" (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {rows})"
        )
        return f'INSERT INTO "{table.name}" ({names}) {numbers} SELECT {values} FROM numbers'
    return (
        f'INSERT INTO "{table.name}" ({names}) SELECT {values} FROM generate_series(1, {rows}) AS n'
    )


def _value(table: Table, name: str, dialect: str) -> str:
    if (table.name, name) in WORDS:
        return WORDS[table.name, name]
    match table.c[name].type:
        case UtcTime():
            return LONG_AGO
        case Boolean():
            return "false"
        case Integer() | BigInteger():
            return "n"
        case Double():
            return "0"
        case LargeBinary():
            return "x'00'" if dialect == "sqlite" else "'\\x00'::bytea"
        case _:
            return f"'{name}-x' || n" if name not in ("key", "hash", "entry", "id") else "'x' || n"
