"""An installation that keeps its blobs elsewhere than it did: both places are one store."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import select

from perdure.adapters.stores.blobs import BlobBackend, renewed_or_written
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.object_blobs import ObjectShelf
from perdure.adapters.stores.tables import blob_objects
from perdure.domain.foundation.errors import StoreAway

TRIED_BYTES = 64 * 1024


class MovedBlobs:
    """Writes new blobs to the object store and reads older ones where they are until moved.

    Args:
        objects: where new ones go.
        former: where they went before: files beside SQLite, or the table of PostgreSQL.
    """

    def __init__(self, objects: ObjectShelf, former: BlobBackend) -> None:
        self._objects = objects
        self._former = former

    @property
    def url(self) -> str:
        """Where new blobs go."""
        return self._objects.url

    async def write(self, address: str, stored: bytes) -> None:
        await self._objects.write(address, stored)

    async def keep(self, address: str, size: int, sealed: Callable[[], bytes]) -> None:
        await renewed_or_written(self, address, size, sealed)

    async def renew(self, address: str, size: int) -> bool:
        if await self._objects.renew(address, size):
            return True
        return await self._former.renew(address, size)

    async def read(self, address: str) -> bytes | None:
        # The third look is for one that was moved between the first and the second.
        for shelf in (self._objects, self._former, self._objects):
            if (found := await shelf.read(address)) is not None:
                return found
        return None

    async def exists(self, address: str) -> bool:
        for shelf in (self._objects, self._former, self._objects):
            if await shelf.exists(address):
                return True
        return False

    async def delete(self, addresses: Sequence[str], *, written_before: datetime) -> list[int]:
        former = await self._former.delete(addresses, written_before=written_before)
        return former + await self._objects.delete(addresses, written_before=written_before)

    async def addresses(self) -> AsyncIterator[tuple[str, int, datetime]]:
        seen: set[str] = set()
        async for found in self._objects.addresses():
            seen.add(found[0])
            yield found
        async for found in self._former.addresses():
            if found[0] not in seen:
                yield found

    async def is_moved(self) -> bool:
        """Whether no blob is where they were before."""
        async for _ in self._former.addresses():
            return False
        return True

    async def move(self, *, now: datetime) -> tuple[int, int]:
        """Move all older blobs to the object store; return their number and bytes.

        May be broken off and made again, beside runs that work.
        """
        moved, size = 0, 0
        for address, _, _ in [found async for found in self._former.addresses()]:
            stored = await self._former.read(address)
            if stored is None:
                continue
            if not await self._objects.renew(address, len(stored)):
                await self._objects.write(address, stored)
            # Whoever renewed it meanwhile finds it where it is now.
            await self._former.delete([address], written_before=now + timedelta(days=1))
            moved, size = moved + 1, size + len(stored)
        return moved, size

    async def sweep(self, *, written_before: datetime, now: datetime) -> list[int]:
        """Delete what writers that died left in the object store; the sizes."""
        return await self._objects.sweep(written_before=written_before, now=now)

    async def try_writing(self) -> None:
        """Write something, read it and take it back; raises `StoreAway`."""
        await self._objects.try_writing(TRIED_BYTES)


class UntoldObjects:
    """A shelf of a process that does not know of the object store, where others may keep blobs.

    Whoever needs such a blob waits, instead of taking it for lost.
    """

    def __init__(self, database: Database, shelf: BlobBackend) -> None:
        self._database = database
        self._shelf = shelf

    async def write(self, address: str, stored: bytes) -> None:
        await self._shelf.write(address, stored)

    async def keep(self, address: str, size: int, sealed: Callable[[], bytes]) -> None:
        await self._shelf.keep(address, size, sealed)

    async def renew(self, address: str, size: int) -> bool:
        return await self._shelf.renew(address, size)

    async def read(self, address: str) -> bytes | None:
        found = await self._shelf.read(address)
        if found is None:
            await self._not_elsewhere(address)
        return found

    async def exists(self, address: str) -> bool:
        if await self._shelf.exists(address):
            return True
        await self._not_elsewhere(address)
        return False

    async def delete(self, addresses: Sequence[str], *, written_before: datetime) -> list[int]:
        return await self._shelf.delete(addresses, written_before=written_before)

    def addresses(self) -> AsyncIterator[tuple[str, int, datetime]]:
        return self._shelf.addresses()

    async def _not_elsewhere(self, address: str) -> None:
        query = select(blob_objects.c.address).where(blob_objects.c.address == address)
        async with self._database.read() as connection:
            elsewhere = await connection.scalar(query)
        if elsewhere is not None:
            raise StoreAway(
                f"The blob {address} is in an object store, and PERDURE_BLOBS is not set here.",
                cure="Set PERDURE_BLOBS as where it was written, and start this process again.",
            )
