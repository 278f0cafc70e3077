"""Blobs as rows, for stores that several hosts share."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime

from sqlalchemy import Select, delete, func, select, update

from perdure.adapters.stores.blobs import renewed_or_written
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import blobs

PAGE = 500


class TableShelf:
    """Rows of the table `blobs`; a row is committed before `write` returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write(self, address: str, stored: bytes) -> None:
        new = self._database.insert(blobs).values(
            address=address, content=stored, written_at=self._database.moment()
        )
        replace = new.on_conflict_do_update(
            index_elements=["address"],
            set_={"content": new.excluded.content, "written_at": new.excluded.written_at},
        )
        await self._database.change(replace)

    async def keep(self, address: str, size: int, sealed: Callable[[], bytes]) -> None:
        await renewed_or_written(self, address, size, sealed)

    async def renew(self, address: str, size: int) -> bool:
        # Read first: most content is new, and then no write lock is needed to say so.
        found = await self._database.value(_size_of(address))
        if found != size:
            return False
        async with self._database.write() as connection:
            renewed = await connection.execute(
                update(blobs)
                .where(blobs.c.address == address)
                .values(written_at=self._database.moment())
            )
        return renewed.rowcount == 1

    async def read(self, address: str) -> bytes | None:
        return await self._database.value(select(blobs.c.content).where(blobs.c.address == address))

    async def exists(self, address: str) -> bool:
        return await self._database.value(_size_of(address)) is not None

    async def delete(self, addresses: Sequence[str], *, written_before: datetime) -> list[int]:
        sizes: list[int] = []
        for start in range(0, len(addresses), PAGE):
            meant = blobs.c.address.in_(addresses[start : start + PAGE])
            old = delete(blobs).where(meant, blobs.c.written_at < written_before)
            async with self._database.write() as connection:
                dropped = await connection.scalars(old.returning(func.length(blobs.c.content)))
                sizes += dropped.all()
        return sizes

    async def addresses(self) -> AsyncIterator[tuple[str, int, datetime]]:
        last = ""
        while True:
            page = (
                select(blobs.c.address, func.length(blobs.c.content), blobs.c.written_at)
                .where(blobs.c.address > last)
                .order_by(blobs.c.address)
                .limit(PAGE)
            )
            async with self._database.read() as connection:
                rows = (await connection.execute(page)).all()
            for address, size, written_at in rows:
                yield address, size, written_at
            if len(rows) < PAGE:
                return
            last = rows[-1][0]


def _size_of(address: str) -> Select[int]:
    return select(func.length(blobs.c.content)).where(blobs.c.address == address)
