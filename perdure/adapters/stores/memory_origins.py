"""From which runs entries of memory came, as rows: an erasure finds them by an index."""

from collections.abc import Sequence

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import memory, memory_origins
from perdure.domain.memory.entries import MemoryEntry, Skill

PAGE = 400


async def note_origins(
    database: Database, connection: AsyncConnection, entry: MemoryEntry, *, id: str
) -> None:
    """Write down who an entry came from; each change of its text asks for it anew."""
    runs = {origin.run for origin in entry.origins if origin.run}
    if isinstance(entry, Skill) and entry.proposed_by:
        runs.add(entry.proposed_by)
    gone = memory_origins.c.entry == id, memory_origins.c.run.not_in(runs)
    await connection.execute(delete(memory_origins).where(*gone))
    if runs:
        new = database.insert(memory_origins).values([{"run": run, "entry": id} for run in runs])
        await connection.execute(new.on_conflict_do_nothing())
    await connection.execute(update(memory).where(memory.c.id == id).values(noted=True))


async def entries_from(connection: AsyncConnection, runs: Sequence[str]) -> list[tuple[str, str]]:
    """Ids and texts of what came from these runs."""
    found: dict[str, str] = {}
    for start in range(0, len(runs), PAGE):
        named = select(memory_origins.c.entry).where(
            memory_origins.c.run.in_(runs[start : start + PAGE])
        )
        query = select(memory.c.id, memory.c.entry).where(memory.c.id.in_(named))
        for name, row in await connection.execute(query):
            found[name] = row
    return sorted(found.items())


async def unnoted(connection: AsyncConnection) -> list[tuple[str, str]]:
    """Ids and texts of entries that an earlier version wrote."""
    query = select(memory.c.id, memory.c.entry).where(memory.c.noted.is_(False))
    return [(name, row) for name, row in await connection.execute(query)]
