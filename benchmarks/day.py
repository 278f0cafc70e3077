"""One run as the store keeps it, and what many like it need: rows, bytes, indexes, blobs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.open_stores import Stores
from perdure.domain.budget.journal import AttemptRow
from perdure.domain.foundation.refs import addresses_in
from perdure.domain.run.status import StoredRun

TABLES = ("runs", "iterations", "attempts", "replies", "blobs")
PAGE = 8192
TUPLE_HEADER, LINE_POINTER = 24, 4
TOAST_ABOVE, TOAST_CHUNK, TOAST_POINTER = 2032, 1996, 18
CHUNKS_A_PAGE = 4
INDEX_ENTRY, POSTING = 8, 6
# How full pages are: tables are written in order and updated, indexes on random keys are split.
TABLE_FILL, INDEX_FILL = 0.95, 0.72


@dataclass(frozen=True, slots=True)
class KeptRun:
    """What one run left in a store; `blobs` in the order in which they were written."""

    row: StoredRun
    records: tuple[str, ...]
    attempts: tuple[AttemptRow, ...]
    replies: dict[str, str]
    blobs: tuple[tuple[str, bytes], ...]

    @classmethod
    async def read(cls, stores: Stores, run: str, *, before: set[str]) -> "KeptRun":
        """The run, with the blobs that were not there `before`."""
        row = await stores.records.run(run)
        assert row is not None
        written = [(at, address) async for address, _, at in stores.blobs.addresses()]
        new = [address for _, address in sorted(written) if address not in before]
        return cls(
            row=row,
            records=tuple(await stores.records.records(run)),
            attempts=tuple(await stores.journal.rows(run)),
            replies=await stores.journal.replies(run),
            blobs=tuple([(address, await stores.blobs.get(address)) for address in new]),
        )


@dataclass(frozen=True, slots=True)
class Need:
    """What a table needs: rows, bytes of rows with what lies beside them, bytes of its indexes."""

    rows: int = 0
    table_bytes: float = 0.0
    index_bytes: float = 0.0

    def times(self, runs: int) -> "Need":
        """For so many runs."""
        return Need(self.rows * runs, self.table_bytes * runs, self.index_bytes * runs)

    def plus(self, other: "Need") -> "Need":
        """Both together."""
        return self.minus(other.times(-1))

    def minus(self, other: "Need") -> "Need":
        """The difference of two measurements."""
        return Need(
            self.rows - other.rows,
            self.table_bytes - other.table_bytes,
            self.index_bytes - other.index_bytes,
        )


def own_blobs(kept: KeptRun, *, at: datetime) -> int:
    """How many blobs of a run no other run has: they go with it."""
    other = renamed(kept, 1, run="x" * len(kept.row.id), at=at)
    return len({address for address, _ in kept.blobs} - {address for address, _ in other.blobs})


async def predicted(connection: AsyncConnection, table: str, *, of: str) -> Need:
    """What the rows of one run need, from the sizes of their columns.

    Args:
        connection: to a PostgreSQL that holds the run and nothing else.
        table: the table.
        of: a condition that chooses the rows of the run.
    """
    columns = [
        row[0]
        for row in await connection.execute(
            text(
                "SELECT attname FROM pg_attribute WHERE attrelid = CAST(:t AS regclass)"
                " AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
            ),
            {"t": table},
        )
    ]
    sizes = ", ".join(f"coalesce(pg_column_size({name}), 0)" for name in columns)
    rows = (await connection.execute(text(f"SELECT {sizes} FROM {table} WHERE {of}"))).all()
    indexes = 0.0
    for unique, keys in await _indexes(connection, table):
        named = ", ".join(keys)
        width = " + ".join(f"coalesce(pg_column_size({name}), 1)" for name in keys)
        query = f"SELECT count(DISTINCT ({named})), avg({width}) FROM {table} WHERE {of}"
        distinct, wide = (await connection.execute(text(query))).one()
        if rows:
            indexes += index_bytes(len(rows), int(distinct), float(wide), unique=unique)
    return Need(len(rows), sum(row_bytes([int(size) for size in row]) for row in rows), indexes)


def row_bytes(columns: Sequence[int]) -> float:
    """Bytes of a row on its page, with its share of the pages that hold what is too long for it."""
    inside, beside = list(columns), 0.0
    while TUPLE_HEADER + sum(inside) > TOAST_ABOVE:
        longest = max(range(len(inside)), key=inside.__getitem__)
        chunks = -(-inside[longest] // TOAST_CHUNK)
        beside += chunks * PAGE / CHUNKS_A_PAGE + chunks * (INDEX_ENTRY + 12) / INDEX_FILL
        inside[longest] = TOAST_POINTER
    return (aligned(TUPLE_HEADER + sum(inside)) + LINE_POINTER) / TABLE_FILL + beside


def index_bytes(rows: int, distinct: int, key: float, *, unique: bool) -> float:
    """Bytes of the leaves of a B-tree: rows with one key share it, but in a unique index."""
    entry = INDEX_ENTRY + aligned(key) + LINE_POINTER
    if unique or distinct == rows:
        return rows * entry / INDEX_FILL
    return (distinct * entry + rows * POSTING) / INDEX_FILL


def aligned(size: float) -> float:
    """Rounded up to 8 bytes."""
    return -(-size // 8) * 8


async def measured(connection: AsyncConnection, tables: Iterable[str] = TABLES) -> dict[str, Need]:
    """What each table has now."""
    found: dict[str, Need] = {}
    for table in tables:
        query = (
            f"SELECT (SELECT count(*) FROM {table}), pg_table_size('{table}'),"
            f" pg_indexes_size('{table}')"
        )
        found[table] = Need(*(await connection.execute(text(query))).one())
    return found


async def _indexes(connection: AsyncConnection, table: str) -> list[tuple[bool, list[str]]]:
    """Whole indexes of a table: whether they are unique, and their columns."""
    found = await connection.execute(
        text(
            "SELECT i.indisunique, array_agg(a.attname) FROM pg_index i JOIN pg_attribute a"
            " ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)"
            " WHERE i.indrelid = CAST(:t AS regclass) AND i.indpred IS NULL"
            " GROUP BY i.indexrelid, i.indisunique"
        ),
        {"t": table},
    )
    return [(bool(unique), list(names)) for unique, names in found]


# What the scene says in every run; each run of a day says something of its own instead.
SAID = "Page 0", "Read the pages"


def renamed(kept: KeptRun, number: int, *, run: str, at: datetime) -> KeptRun:
    """The same run under another id, and about something else, at the same length.

    Blobs that say neither stay as they are (tools, for instance): such content is kept once however
    many runs have it.
    """
    names = {kept.row.id: run, **{said: f"{number:0{len(said)}d}" for said in SAID}}
    assert all(len(old) == len(new) for old, new in names.items())

    def told(words: str) -> str:
        for old, new in names.items():
            words = words.replace(old, new)
        return words

    blobs: list[tuple[str, bytes]] = []
    for address, content in kept.blobs:
        changed = content
        for named in {kept.row.id, *SAID, *addresses_in(content)} & names.keys():
            changed = changed.replace(named.encode(), names[named].encode())
        names[address] = f"sha256:{sha256(changed).hexdigest()}"
        blobs.append((names[address], changed))
    row = StoredRun.model_validate_json(told(kept.row.model_dump_json()))
    execution = sha256(run.encode()).hexdigest()[:36]
    return replace(
        kept,
        row=row.model_copy(update={"started_at": at, "ended_at": at, "start_key": None}),
        records=tuple(told(one) for one in kept.records),
        attempts=tuple(
            one.model_copy(
                update={"key": f"{execution}/{number}", "run": run, "root": run, "started_at": at}
            )
            for number, one in enumerate(kept.attempts)
        ),
        replies={
            f"{execution}/{number}": told(kept.replies[one.key])
            for number, one in enumerate(kept.attempts)
            if one.key in kept.replies
        },
        blobs=tuple(blobs),
    )
