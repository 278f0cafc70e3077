"""Blobs as objects of an object store; a row in the database decides whether a blob exists.

An object's name is the blob's address and a random suffix, so no name is ever written twice. A
garbage collection that deleted a row can therefore delete the object at any later time: a writer
that stores the same content again uses another name. An object without a row was replaced, or its
writer died; `sweep` deletes it once it is old.
"""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import delete, select, update

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.encryption import kind
from perdure.adapters.stores.tables import blob_objects
from perdure.domain.foundation.errors import StoreAway

if TYPE_CHECKING:  # the module needs an optional dependency
    from perdure.adapters.stores.objects import Objects

PAGE = 500
OWNER = "perdure-installation"
# The longest time between the write of an object and of its row; after it, the write fails.
LONGEST_WRITE = timedelta(minutes=20)
# Younger objects without a row are kept, since their writer may be about to write the row.
UNOWNED_FOR = timedelta(hours=1)

_KEY = re.compile(r"(sha256|hmac)/([0-9a-f]{2})/([0-9a-f]{62})\.[0-9a-f]{16}")


class _Written(NamedTuple):
    object: str
    size: int


class ObjectShelf:
    """Blobs as rows of the table `blob_objects`, each with an object.

    Args:
        database: of the installation.
        objects: the bucket or folder with the content.
        installation: returns the id of the installation, which marks the bucket as its own.
        now: the clock of this host, for how long a write takes.
    """

    def __init__(
        self,
        database: Database,
        objects: "Objects",
        *,
        installation: Callable[[], Awaitable[str]],
        now: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._objects = objects
        self._installation = installation
        self._now = now
        self._ours = False
        self._looking = asyncio.Lock()

    @property
    def url(self) -> str:
        return self._objects.place.url

    async def write(self, address: str, stored: bytes) -> None:
        await self._look()
        key, began = _new_key(address), self._now()
        await self._objects.put(key, stored)
        if self._now() - began > LONGEST_WRITE:
            # The process was suspended here; `sweep` may have deleted the object meanwhile.
            raise StoreAway(
                f"Writing the blob {address} took longer than {LONGEST_WRITE}.",
                cure="It is written again.",
            )
        new = self._database.insert(blob_objects).values(
            address=address, object=key, size=len(stored), written_at=self._database.moment()
        )
        replace = new.on_conflict_do_update(
            index_elements=["address"],
            set_={name: new.excluded[name] for name in ("object", "size", "written_at")},
        )
        await self._database.change(replace)

    async def renew(self, address: str, size: int) -> bool:
        found = await self._row(address)
        if found is None or found.size != size:
            return False
        # The row before the look: from now on no collection drops this object.
        async with self._database.write() as connection:
            renewed = await connection.execute(
                update(blob_objects)
                # Another writer may have replaced it since; only this object had the right size.
                .where(blob_objects.c.address == address, blob_objects.c.object == found.object)
                .values(written_at=self._database.moment())
            )
        if renewed.rowcount != 1:
            return False
        await self._look()
        # The caller relies on the content. If somebody deleted the object, it is written again.
        return await self._objects.size(found.object) == size

    async def read(self, address: str) -> bytes | None:
        found = await self._row(address)
        if found is None:
            return None
        await self._look()
        content = await self._objects.get(found.object)
        if content is None:
            # Another writer may have replaced it since the row was read.
            newest = await self._row(address)
            if newest is not None and newest.object != found.object:
                return await self._objects.get(newest.object)
            # Look whether this is still our bucket: if it was emptied or exchanged, the store is
            # away, and `_look` raises. Otherwise the object is lost.
            await self._look(again=True)
        return content

    async def exists(self, address: str) -> bool:
        found = await self._row(address)
        if found is None:
            return False
        await self._look()
        return await self._objects.size(found.object) is not None

    async def delete(self, addresses: Sequence[str], *, written_before: datetime) -> list[int]:
        sizes: list[int] = []
        for start in range(0, len(addresses), PAGE):
            meant = blob_objects.c.address.in_(addresses[start : start + PAGE])
            old = delete(blob_objects).where(meant, blob_objects.c.written_at < written_before)
            async with self._database.write() as connection:
                found = await connection.execute(
                    old.returning(blob_objects.c.object, blob_objects.c.size)
                )
                dropped = found.all()
            # After the commit: a row without an object would be a lost blob, while an object
            # without a row is only swept later.
            if dropped:
                await self._look()
                await self._objects.delete([key for key, _ in dropped])
            sizes += [size for _, size in dropped]
        return sizes

    async def addresses(self) -> AsyncIterator[tuple[str, int, datetime]]:
        columns = (blob_objects.c.address, blob_objects.c.size, blob_objects.c.written_at)
        last = ""
        while True:
            page = select(*columns).where(blob_objects.c.address > last)
            page = page.order_by(blob_objects.c.address).limit(PAGE)
            async with self._database.read() as connection:
                rows = (await connection.execute(page)).all()
            for address, size, written_at in rows:
                yield address, size, written_at
            if len(rows) < PAGE:
                return
            last = rows[-1][0]

    async def sweep(self, *, written_before: datetime, now: datetime) -> list[int]:
        """Delete old objects that no row names, such as those of dead writers; returns sizes."""
        await self._look()
        before = min(written_before, now - UNOWNED_FOR)
        sizes: list[int] = []
        async for page in self._objects.pages():
            # Only names of our form: the prefix also holds the mark of its owner.
            old = {key: size for key, size, at in page if at < before and _KEY.fullmatch(key)}
            for key in await self._named(list(old)):
                del old[key]
            await self._objects.delete(list(old))
            sizes += old.values()
        return sizes

    async def try_writing(self, size: int) -> None:
        """Write, read and delete a test object of this size; raises `StoreAway`."""
        await self._look()
        key, content = f"tried/{secrets.token_hex(8)}", secrets.token_bytes(size)
        await self._objects.put(key, content)
        found = await self._objects.get(key)
        await self._objects.delete([key])
        if found != content:
            raise StoreAway(
                f"{self.url} returned other content than was written.",
                cure="Check the object store, and any proxy between it and this machine.",
            )

    async def _row(self, address: str) -> _Written | None:
        query = select(blob_objects.c.object, blob_objects.c.size)
        async with self._database.read() as connection:
            found = await connection.execute(query.where(blob_objects.c.address == address))
            row = found.first()
        return None if row is None else _Written(*row)

    async def _named(self, keys: Sequence[str]) -> set[str]:
        """The objects among these that a row names."""
        named: set[str] = set()
        for start in range(0, len(keys), PAGE):
            addresses = [_address(key) for key in keys[start : start + PAGE]]
            query = select(blob_objects.c.object).where(blob_objects.c.address.in_(addresses))
            named |= set(await self._database.values(query))
        return named & set(keys)

    async def _look(self, *, again: bool = False) -> None:
        """Check once per process that the bucket exists and belongs to this installation."""
        # Of many steps that begin at once, one asks the bucket, and the others wait for its answer.
        async with self._looking:
            if self._ours and not again:
                return
            await self._claim()
            self._ours = True

    async def _claim(self) -> None:
        mine = await self._installation()
        owner = await self._objects.get(OWNER)
        if owner is None:
            await self._mark(mine)
            owner = await self._objects.get(OWNER)
        if owner != mine.encode():
            raise StoreAway(
                f"{self.url}, which PERDURE_BLOBS names, holds the blobs of another installation.",
                cure="Name a bucket or a prefix of this installation's own.",
            )

    async def _mark(self, mine: str) -> None:
        used = await self._database.value(select(blob_objects.c.address).limit(1))
        if used is not None:
            raise StoreAway(
                f"{self.url}, which PERDURE_BLOBS names, is not where the blobs of this"
                f" installation are: the object {OWNER} is missing there, or the bucket itself.",
                cure="Name the bucket and prefix that they were written to, or copy all objects"
                " from there first.",
            )
        # Of two installations at once the first one's mark counts; the caller reads it back.
        await self._objects.create(OWNER, mine.encode())


def _new_key(address: str) -> str:
    name, digits = kind(address), address.partition(":")[2]
    return f"{name}/{digits[:2]}/{digits[2:]}.{secrets.token_hex(8)}"


def _address(key: str) -> str:
    name, first, rest = key.split("/")
    return f"{name}:{first}{rest.partition('.')[0]}"
