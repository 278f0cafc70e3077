"""What garbage collection and the doctor ask of a store: named blobs, and whether writing works.

Reading works with a full disk, a held lock or a read-only server, although these stop every run.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

from sqlalchemy import DateTime, Select, Text, func, insert, select

from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.encryption import Content
from perdure.adapters.stores.file_blobs import UNFINISHED, try_file
from perdure.adapters.stores.open_stores import BLOBS_FOLDER, Stores
from perdure.adapters.stores.tables import (
    api_starts,
    api_tokens,
    attempts,
    blob_objects,
    blobs,
    erased_blobs,
    erasures,
    memory_origins,
    metadata,
    replies,
    runs,
    schedule_bookings,
    schedule_spend,
    schedule_starts,
    seals,
    spend_totals,
    tombstones,
    tree_seals,
    verdicts,
)
from perdure.domain.foundation.refs import addresses_in

PAGE = 500
# These tables grow without bound and name no blobs. Tables are excluded, not included, so that a
# new table is searched by default.
_NAMELESS = frozenset({
    api_starts, api_tokens, attempts, blob_objects, blobs, erased_blobs, erasures,
    memory_origins, replies, schedule_bookings, schedule_spend, schedule_starts, seals,
    spend_totals, tombstones, tree_seals,
})  # fmt: skip


async def named_by_rows(database: Database) -> set[str]:
    """Every address in any row: runs, records, memory, generated tools, artifacts and all others.

    The journal outlives its runs: only replies of existing runs are searched.
    """
    named: set[str] = set()
    for table in metadata.sorted_tables:
        texts = [column for column in table.columns if isinstance(column.type, Text | Content)]
        if texts and table not in _NAMELESS:
            named |= await _named(database, select(*texts))
    return named | await _named(database, _replies())


async def _named(database: Database, query: Select[tuple[str | None, ...]]) -> set[str]:
    named: set[str] = set()
    async for text in _values(database, query):
        # A text may hold half a character, which has no bytes; no address does.
        named |= addresses_in(text.encode(errors="replace"))
    return named


async def _values(database: Database, query: Select[tuple[str | None, ...]]) -> AsyncIterator[str]:
    paged = query.execution_options(yield_per=PAGE)
    async with database.read() as connection, connection.stream(paged) as rows:
        async for row in rows:
            for value in row:
                if value is not None:
                    yield value


def _replies() -> Select[tuple[str | None, ...]]:
    of_a_run = select(attempts.c.key).join(runs, runs.c.id == attempts.c.run)
    return select(replies.c.reply).where(replies.c.key.in_(of_a_run))


TRIED_BYTES = 64 * 1024


class _TakenBackError(Exception):
    """Rolls back the transaction of `_try_rows`."""


async def try_writing(stores: Stores, home: Path) -> None:
    """Write as a step would, and undo it.

    Args:
        stores: the open stores.
        home: the installation's folder.

    Raises:
        StoreAway: a step could not write now; the message says why.
        StoreError: the store is damaged.
    """
    name = f"doctor-{secrets.token_hex(8)}"
    await _try_rows(stores.database, name)
    if stores.database.dialect_name == "sqlite":
        # A transaction that is rolled back may never reach the disk; a synced file does.
        file = Path(stores.database.engine.url.database or home)
        for folder in (file.parent, home / BLOBS_FOLDER / UNFINISHED):
            await asyncio.to_thread(try_file, folder / f".{name}", TRIED_BYTES)


async def _try_rows(database: Database, name: str) -> None:
    values = {"key": name, "reply": "x" * TRIED_BYTES, "written_at": utc_now()}
    try:
        async with database.write() as connection:
            await connection.execute(insert(verdicts).values(values))
            raise _TakenBackError
    except _TakenBackError:
        return


async def time_of(database: Database) -> datetime:
    """The time by the clock of a PostgreSQL server; SQLite has none of its own."""
    async with database.read() as connection:
        found = await connection.execute(
            select(func.clock_timestamp(type_=DateTime(timezone=True)))
        )
        return found.scalar_one()
