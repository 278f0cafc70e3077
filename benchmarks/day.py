"""One run as the store keeps it, and what many like it need: rows, bytes, indexes, blobs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from uuid import UUID

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
CHUNK_HEADER = 36
INDEX_ENTRY, POSTING = 8, 6
# How full pages are: tables are written in order and updated. Pages of an index are split in halves
# where keys are random, and left nearly full where each key is greater than those before it.
TABLE_FILL, INDEX_FILL, ORDERED_FILL = 0.95, 0.72, 0.9
# Leading columns of indexes into which new rows go at the end, or at the end of their model's. Keys
# of calls begin with a time, but many executions that are open together take turns.
ORDERED = frozenset({"started_at", "ended_at", "model"})
# A run's row is written at its start and its end. The end changes indexed columns, so that the row
# gets another place and a second entry in every index; vacuum makes room of the first, and leaves
# the pages.
WRITINGS = {"runs": 2}
# What every table has that holds rows: the maps of its free space and of its visible pages.
MAPS_BYTES = 4 * PAGE


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

    def with_maps(self) -> "Need":
        """With what a table has once, however many rows it holds."""
        return replace(self, table_bytes=self.table_bytes + MAPS_BYTES)

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


@dataclass(frozen=True, slots=True)
class Index:
    """A B-tree: whether it is unique, its columns, and the condition of the rows that it holds."""

    unique: bool
    columns: tuple[str, ...]
    condition: str = "TRUE"

    def bytes(self, rows: int, distinct: int, key: float) -> float:
        """Bytes of its leaves.

        Args:
            rows: how many entries were made.
            distinct: how many different keys they have; those without any value are none.
            key: bytes of a key. Rows of one key share it, but in a unique index.
        """
        entry = INDEX_ENTRY + aligned(key) + LINE_POINTER
        fill = ORDERED_FILL if self.columns[0] in ORDERED else INDEX_FILL
        if distinct and (self.unique or distinct == rows):
            return rows * entry / fill
        return (distinct * entry + rows * POSTING) / fill


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
    for index in await _indexes(connection, table):
        width = " + ".join(f"coalesce(pg_column_size({name}), 0)" for name in index.columns)
        query = (
            f"SELECT count(*), count(DISTINCT ({', '.join(index.columns)})), avg({width})"
            f" FROM {table} WHERE {of} AND ({index.condition})"
        )
        count, distinct, wide = (await connection.execute(text(query))).one()
        entries, keys = (number * WRITINGS.get(table, 1) for number in (count, distinct))
        indexes += index.bytes(entries, keys, float(wide or 0))
    writings = WRITINGS.get(table, 1)
    size = sum(row_bytes([int(one) for one in row], writings=writings) for row in rows)
    return Need(len(rows), size, indexes)


def row_bytes(columns: Sequence[int], *, writings: int = 1) -> float:
    """Bytes of a row on its page, with those of the chunks that hold what is too long for it.

    Args:
        columns: bytes of each column.
        writings: how often the row gets another place.
    """
    inside, beside = list(columns), 0.0
    while TUPLE_HEADER + sum(inside) > TOAST_ABOVE:
        longest = max(range(len(inside)), key=inside.__getitem__)
        whole, rest = divmod(inside[longest], TOAST_CHUNK)
        chunks = [TOAST_CHUNK] * whole + [rest] * (rest > 0)
        beside += sum(aligned(CHUNK_HEADER + size) + LINE_POINTER for size in chunks) / TABLE_FILL
        beside += len(chunks) * (INDEX_ENTRY + 8 + LINE_POINTER) / ORDERED_FILL
        inside[longest] = TOAST_POINTER
    row = aligned(TUPLE_HEADER + sum(inside)) + LINE_POINTER
    return writings * row / TABLE_FILL + beside


def aligned(size: float) -> float:
    """Rounded up to 8 bytes."""
    return -(-size // 8) * 8


async def measured(connection: AsyncConnection, tables: Iterable[str] = TABLES) -> dict[str, Need]:
    """What each table has now, without the pages that it took ahead of its next rows."""
    found: dict[str, Need] = {}
    for table in tables:
        query = (
            f"SELECT (SELECT count(*) FROM {table}), pg_table_size('{table}'),"
            f" pg_indexes_size('{table}'), CAST(reltoastrelid AS regclass)::text"
            f" FROM pg_class WHERE oid = CAST('{table}' AS regclass)"
        )
        rows, size, indexes, beside = (await connection.execute(text(query))).one()
        parts = [part for part in (table, beside) if part != "-"]
        ahead = sum([await _empty_pages(connection, part) for part in parts])
        found[table] = Need(rows, size - ahead * PAGE, indexes)
    return found


async def _empty_pages(connection: AsyncConnection, table: str) -> int:
    """Pages without rows: writers that wait for each other take many at once, for what comes."""
    query = (
        f"SELECT pg_relation_size('{table}') / {PAGE}"
        f" - (SELECT count(DISTINCT (CAST(CAST(ctid AS text) AS point))[0]) FROM {table})"
    )
    return int((await connection.execute(text(query))).scalar_one())


async def _indexes(connection: AsyncConnection, table: str) -> list[Index]:
    found = await connection.execute(
        text(
            "SELECT i.indisunique, coalesce(pg_get_expr(i.indpred, i.indrelid), 'TRUE'),"
            " array_agg(a.attname ORDER BY array_position(i.indkey::int2[], a.attnum))"
            " FROM pg_index i JOIN pg_attribute a"
            " ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)"
            " WHERE i.indrelid = CAST(:t AS regclass)"
            " GROUP BY i.indexrelid, i.indisunique, i.indpred, i.indrelid"
        ),
        {"t": table},
    )
    return [Index(unique, tuple(names), condition) for unique, condition, names in found]


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
    keys = {one.key: _key_at(one.key, run=run, at=at) for one in kept.attempts}
    return replace(
        kept,
        row=row.model_copy(update={"started_at": at, "ended_at": at}),
        records=tuple(told(one) for one in kept.records),
        attempts=tuple(
            one.model_copy(update={"key": keys[one.key], "run": run, "root": run, "started_at": at})
            for one in kept.attempts
        ),
        replies={keys[key]: told(reply) for key, reply in kept.replies.items()},
        blobs=tuple(blobs),
    )


def _key_at(key: str, *, run: str, at: datetime) -> str:
    """The key of the same call in an execution of that time, whose id begins with the time."""
    execution, _, call = key.partition("/")
    digits = f"{int(at.timestamp() * 1000):012x}7{sha256(run.encode()).hexdigest()}"
    return f"{UUID(digits[:32])!s:.{len(execution)}}/{call}"
