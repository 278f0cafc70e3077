"""Blobs of an installation that moved to an object store: the old and new place act as one."""

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
    """Writes new blobs to the object store, and reads older ones from the former place.

    Args:
        objects: the object store for new blobs.
        former: the place of older blobs: files beside SQLite, or the table of PostgreSQL.
    """

    def __init__(self, objects: ObjectShelf, former: BlobBackend) -> None:
        self._objects = objects
        self._former = former

    @property
    def url(self) -> str:
        """The URL of the object store."""
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
        # Look in the object store again: the blob may have moved between the first two looks.
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
        """Whether the former place is empty."""
        async for _ in self._former.addresses():
            return False
        return True

    async def move(self, *, now: datetime) -> tuple[int, int]:
        """Move all older blobs to the object store; returns their number and total bytes.

        This can be interrupted and repeated, while runs go on.
        """
        moved, size = 0, 0
        for address, _, _ in [found async for found in self._former.addresses()]:
            stored = await self._former.read(address)
            if stored is None:
                continue
            if not await self._objects.renew(address, len(stored)):
                await self._objects.write(address, stored)
            # Delete it even if it was renewed meanwhile: readers find it in the object store.
            await self._former.delete([address], written_before=now + timedelta(days=1))
            moved, size = moved + 1, size + len(stored)
        return moved, size

    async def sweep(self, *, written_before: datetime, now: datetime) -> list[int]:
        """Delete what dead writers left in the object store; returns the deleted sizes."""
        return await self._objects.sweep(written_before=written_before, now=now)

    async def try_writing(self) -> None:
        """Write, read and delete a test object; raises `StoreAway`."""
        await self._objects.try_writing(TRIED_BYTES)


class UntoldObjects:
    """The store of a process without `PERDURE_BLOBS`, while others may use an object store.

    A blob that is in the object store counts as away, not as lost, so that steps wait for it.
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
        elsewhere = await self._database.value(query)
        if elsewhere is not None:
            raise StoreAway(
                f"The blob {address} is in an object store, and PERDURE_BLOBS is not set here.",
                cure="Set PERDURE_BLOBS as where it was written, and start this process again.",
            )
