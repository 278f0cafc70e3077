"""Tries whether a store can be written, and leaves nothing behind.

Reading tells nothing of a full disk, a lock or a read-only server, which stop every run.
"""

import asyncio
import secrets
from pathlib import Path

from sqlalchemy import insert

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.file_blobs import UNFINISHED, try_file
from perdure.adapters.stores.open_stores import BLOBS_FOLDER, Stores
from perdure.adapters.stores.tables import live_texts

TRIED_BYTES = 64 * 1024


class _TakenBackError(Exception):
    """Rolls the transaction back."""


async def try_writing(stores: Stores, home: Path) -> None:
    """Write what a step would, and take it back.

    Args:
        stores: the open stores.
        home: the installation's folder.

    Raises:
        StoreAway: a step could not write now; it says why.
        StoreError: the store is damaged.
    """
    name = f"doctor-{secrets.token_hex(8)}"
    await _try_rows(stores.database, name)
    if stores.database.dialect_name == "sqlite":
        # A transaction that is taken back may never have reached the disk; a synced file has.
        file = Path(stores.database.engine.url.database or home)
        for folder in (file.parent, home / BLOBS_FOLDER / UNFINISHED):
            await asyncio.to_thread(try_file, folder / f".{name}", TRIED_BYTES)


async def _try_rows(database: Database, name: str) -> None:
    values = {"run": name, "key": name, "attempt": 1, "text": "x" * TRIED_BYTES}
    try:
        async with database.write() as connection:
            await connection.execute(insert(live_texts).values(values))
            raise _TakenBackError
    except _TakenBackError:
        return
