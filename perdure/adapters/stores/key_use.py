"""Finds which key encrypted which rows and blobs, and encrypts them again with the current one."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import datetime

from sqlalchemy import Column, Table, Text, or_, select, type_coerce, update

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.encryption import MARK, SEALED_BLOB, Content, kind
from perdure.adapters.stores.generated_tools import columns_of
from perdure.adapters.stores.memory import entry_of, row_of
from perdure.adapters.stores.open_stores import Stores
from perdure.adapters.stores.tables import encryption_keys, made_tools, memory, metadata
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.tolerance import read
from perdure.domain.generated_tools.record import GeneratedTool
from perdure.domain.installation.encryption_keys import NO_KEY, KnownKey

PAGE = 200
Stop = Callable[[], bool]
Uses = Counter[str]


def never() -> bool:
    """Never stop early."""
    return False


class KeyRegistry:
    """The keys that have encrypted something in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def known(self) -> list[KnownKey]:
        """All keys, the oldest first."""
        query = select(encryption_keys).order_by(encryption_keys.c.first_used_at)
        rows = await self._database.rows(query)
        return [KnownKey.model_validate(dict(row)) for row in rows]

    async def note(self, key: str, *, at: datetime) -> None:
        """Note that a key encrypts from now on; a retired key is in use again."""
        # Look before writing: most commands come here, and must work on a full disk.
        if any(one.id == key and one.retired_at is None for one in await self.known()):
            return
        new = self._database.insert(encryption_keys).values(id=key, first_used_at=at)
        again = new.on_conflict_do_update(index_elements=["id"], set_={"retired_at": None})
        await self._database.change(again)

    async def retire(self, key: str, *, at: datetime) -> None:
        """Note that nothing needs a key any more."""
        change = update(encryption_keys).where(encryption_keys.c.id == key).values(retired_at=at)
        await self._database.change(change)


async def require_known(database: Database, *, now: datetime) -> None:
    """Require that all keys in use are configured, and note the current one.

    Raises:
        InvalidInput: the settings lack a key that encrypted something and was not retired.
    """
    registry, cells = KeyRegistry(database), database.cells
    known = await registry.known()
    lacking = [one.id for one in known if one.retired_at is None and one.id not in cells.ids]
    if lacking:
        raise InvalidInput(
            f"The stores hold content under the encryption key {', '.join(lacking)}, which no "
            "setting names.",
            cure="Name it in PERDURE_ENCRYPTION_KEY or PERDURE_ENCRYPTION_OLD_KEYS. With it, "
            "`perdure keys` says what needs it, and `perdure keys retire` ends that.",
        )
    if cells.ids:
        await registry.note(cells.ids[0], at=now)


async def rows_by_key(database: Database, *, stop: Stop = never) -> Uses:
    """How many values each key encrypted in rows."""
    found: Uses = Counter()
    for table in metadata.sorted_tables:
        for column in _sealed(table):
            async for stored in _values(database, column):
                if stored.startswith(MARK):
                    found[_name(database, column, stored)] += 1
                if stop():
                    return found
    return found


async def blobs_by_key(stores: Stores, *, stop: Stop = never) -> Uses:
    """How many blobs each key encrypted."""
    found: Uses = Counter()
    async for address, _, _ in stores.blobs.addresses():
        if kind(address) == SEALED_BLOB:
            found[await stores.sealed.key_of(address) or NO_KEY] += 1
        if stop():
            return found
    return found


async def rewrap(stores: Stores) -> tuple[int, int]:
    """Encrypt rows and blobs of older keys again with the current one; returns how many of each.

    This can be interrupted and repeated while runs go on: a value is written only if it has not
    changed since it was read.
    """
    rows = 0
    for table in metadata.sorted_tables:
        for column in _sealed(table):
            rows += await _rewrap_column(stores.database, table, column)
    rows += await _redigest(stores.database)
    blobs = 0
    async for address, _, _ in stores.blobs.addresses():
        if kind(address) == SEALED_BLOB and await stores.sealed.rewrap(address):
            blobs += 1
    return rows, blobs


def _sealed(table: Table) -> list[Column[str]]:
    return [column for column in table.columns if isinstance(column.type, Content)]


def _name(database: Database, column: Column[str], stored: str) -> str:
    assert isinstance(column.type, Content)
    return database.cells.key_of(column.type.column, stored) or NO_KEY


async def _values(database: Database, column: Column[str]) -> AsyncIterator[str]:
    query = select(type_coerce(column, Text)).where(column.is_not(None))
    paged = query.execution_options(yield_per=PAGE)
    async with database.read() as connection, connection.stream(paged) as rows:
        async for (value,) in rows:
            yield value


async def _rewrap_column(database: Database, table: Table, column: Column[str]) -> int:
    raw = type_coerce(column, Text)
    names = [key.name for key in table.primary_key.columns]
    assert isinstance(column.type, Content)
    place, cells = column.type.column, database.cells
    query = select(*table.primary_key.columns, raw).where(column.is_not(None))
    old: list[tuple[object, ...]] = []
    async with (
        database.read() as connection,
        connection.stream(query.execution_options(yield_per=PAGE)) as rows,
    ):
        async for row in rows:
            # None: a key that this process lacks. Such a text stays as it is.
            if row[-1].startswith(MARK) and cells.key_of(place, row[-1]) not in {
                None,
                cells.ids[0],
            }:
                old.append(tuple(row))
    changed = 0
    for start in range(0, len(old), PAGE):
        async with database.write() as connection:
            for *key, stored in old[start : start + PAGE]:
                same = [table.c[name] == value for name, value in zip(names, key, strict=True)]
                fresh = cells.seal(place, cells.open(place, str(stored)))
                change = update(table).where(*same, raw == stored)
                done = await connection.execute(
                    change.values({column.name: type_coerce(fresh, Text)})
                )
                changed += done.rowcount
    return changed


async def _redigest(database: Database) -> int:
    """Make the keyed digests that queries look up with the current key again."""
    changed, cells = 0, database.cells
    async with database.write() as connection:
        entries = await connection.execute(select(memory.c.id, memory.c.entry))
        for id, entry in entries.all():
            columns = row_of(entry_of(entry, name=id), cells)
            digests = {name: columns[name] for name in ("categories", "name", "terms")}
            others = or_(*(memory.c[name].is_distinct_from(was) for name, was in digests.items()))
            change = update(memory).where(memory.c.id == id, others).values(digests)
            changed += (await connection.execute(change)).rowcount
        tools = await connection.execute(select(made_tools.c.hash, made_tools.c.tool))
        for hash, tool in tools.all():
            name = columns_of(read(GeneratedTool, tool), cells)["name"]
            change = update(made_tools).where(made_tools.c.hash == hash, made_tools.c.name != name)
            changed += (await connection.execute(change.values(name=name))).rowcount
    return changed
