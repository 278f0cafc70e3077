"""Writes tombstones, which stay of runs that were erased or expired."""

from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import tombstones
from perdure.domain.retention.erasure import Tombstone


async def put_stone(database: Database, connection: AsyncConnection, stone: Tombstone) -> None:
    """Write a tombstone; never overwrite that of an erasure, which must not get a label again."""
    row = stone.model_dump()
    new = database.insert(tombstones).values(row)
    changed = new.on_conflict_do_update(
        index_elements=[tombstones.c.run],
        set_={name: new.excluded[name] for name in row if name != "run"},
        where=tombstones.c.why == "expired",
    )
    await connection.execute(changed)
