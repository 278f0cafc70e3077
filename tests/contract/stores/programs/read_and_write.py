"""Opens a store, reads the records of the run `r`, and tries to write one; tells both.

Usage: read_and_write.py HOME
"""

import asyncio
import sys
from pathlib import Path

from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.foundation.errors import StoreError


async def main(home: str) -> None:
    stores = await open_stores(Path(home))
    print(await stores.records.records("r"))
    try:
        await stores.records.put_record("r", 2, "{}")
    except StoreError as error:
        print(error)
    await stores.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
