"""Stores a blob above the limit on file size, then one below it.

Usage: file_limit.py HOME
"""

import asyncio
import resource
import sys
from pathlib import Path

from perdure.adapters.stores.blobs import VerifiedBlobStore
from perdure.adapters.stores.encryption import Vault
from perdure.adapters.stores.file_blobs import FileShelf
from perdure.domain.foundation.errors import StoreError

LIMIT_BYTES = 64 * 1024


async def main(home: Path) -> None:
    shelf = FileShelf(home / "blobs")
    shelf.open()
    blobs = VerifiedBlobStore(shelf, Vault())
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))
    try:
        await blobs.put(b"x" * LIMIT_BYTES * 4)
    except StoreError as error:
        print(error)
    await blobs.put(b"small")
    found = [entry async for entry in blobs.addresses()]
    print(len(found), len(list((home / "blobs" / "unfinished").iterdir())))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
