"""Finds which key encrypted which rows and blobs, and encrypts them again with the current one."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import datetime

from sqlalchemy import Column, Table, Text, or_, select, type_coerce, update

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.encryption import MARK, SEALED_BLOB, Cells, Content, kind
from perdure.adapters.stores.generated_tools import LOCK as TOOLS_LOCK
from perdure.adapters.stores.generated_tools import columns_of
from perdure.adapters.stores.memory import LOCK as MEMORY_LOCK
from perdure.adapters.stores.memory import entry_of, row_of
from perdure.adapters.stores.open_stores import Stores
from perdure.adapters.stores.tables import encryption_keys, made_tools, memory, metadata
from perdure.domain.foundation.errors import InvalidInput, StoreError
from perdure.domain.foundation.tolerance import read_stored
from perdure.domain.generated_tools.record import GeneratedTool
from perdure.domain.installation.encryption_keys import UNKNOWN_KEY, KnownKey
from perdure.event_log import get_logger

_log = get_logger(__name__)
PAGE = 200
Stop = Callable[[], bool]
Uses = Counter[str]
# From the text of a row, its key and the encryption keys: the columns that queries look up.
Digests = Callable[[str, str, Cells], dict[str, object]]


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
            found[await stores.sealed.key_of(address) or UNKNOWN_KEY] += 1
        if stop():
            return found
    return found


async def rewrap(stores: Stores) -> tuple[int, int, tuple[str, ...]]:
    """Encrypt rows and blobs of older keys again with the current one.

    Returns how many of each, and which rows queries still look up by digests of an older key, as
    their text cannot be read here.

    This can be interrupted and repeated while runs go on: a value is written only if it has not
    changed since it was read.
    """
    rows, database = 0, stores.database
    for table in metadata.sorted_tables:
        for column in _sealed(table):
            rows += await _rewrap_column(database, table, column)
    entries, closed_entries = await _redigest(
        database, memory.c.entry, memory.c.id, lock=MEMORY_LOCK, digests=_of_entry
    )
    tools, closed_tools = await _redigest(
        database, made_tools.c.tool, made_tools.c.hash, lock=TOOLS_LOCK, digests=_of_tool
    )
    blobs = 0
    async for address, _, _ in stores.blobs.addresses():
        if kind(address) == SEALED_BLOB and await stores.sealed.rewrap(address):
            blobs += 1
    unreadable = (
        *(f"memory entry {id}" for id in closed_entries),
        *(f"made tool {hash}" for hash in closed_tools),
    )
    return rows + entries + tools, blobs, unreadable


def _sealed(table: Table) -> list[Column[str]]:
    return [column for column in table.columns if isinstance(column.type, Content)]


def _name(database: Database, column: Column[str], stored: str) -> str:
    assert isinstance(column.type, Content)
    return database.cells.key_of(column.type.column, stored) or UNKNOWN_KEY


async def _values(database: Database, column: Column[str]) -> AsyncIterator[str]:
    query = select(type_coerce(column, Text)).where(column.is_not(None))
    paged = query.execution_options(yield_per=PAGE)
    async with database.read() as connection, connection.stream(paged) as rows:
        async for (value,) in rows:
            yield value


async def _rewrap_column(database: Database, table: Table, column: Column[str]) -> int:
    raw = type_coerce(column, Text)
    assert isinstance(column.type, Content)
    place, cells = column.type.column, database.cells
    query = select(*table.primary_key.columns, raw).where(column.is_not(None))
    # Without their texts, which may be as large as all that is in the store.
    old: list[tuple[object, ...]] = []
    async with (
        database.read() as connection,
        connection.stream(query.execution_options(yield_per=PAGE)) as rows,
    ):
        async for *key, stored in rows:
            if _is_old(cells, place, stored):
                old.append(tuple(key))
    changed = 0
    for start in range(0, len(old), PAGE):
        async with database.write() as connection:
            for key in old[start : start + PAGE]:
                same = [a == b for a, b in zip(table.primary_key.columns, key, strict=True)]
                stored = await connection.scalar(select(raw).where(*same))
                if stored is None or not _is_old(cells, place, stored):
                    continue  # it is gone, or somebody has written it since
                fresh = cells.seal(place, cells.open(place, stored))
                change = update(table).where(*same, raw == stored)
                done = await connection.execute(
                    change.values({column.name: type_coerce(fresh, Text)})
                )
                changed += done.rowcount
    return changed


def _is_old(cells: Cells, place: str, stored: str | None) -> bool:
    """Whether a text is encrypted with an older key that this process has."""
    if stored is None or not stored.startswith(MARK):
        return False
    return cells.key_of(place, stored) not in {None, cells.ids[0]}


async def _redigest(
    database: Database, content: Column[str], key: Column[str], *, lock: str, digests: Digests
) -> tuple[int, list[str]]:
    """Make the keyed digests that queries look up with the current key again.

    Returns how many rows changed, and the keys of rows whose text cannot be read.
    """
    table, cells = content.table, database.cells
    changed, unreadable = 0, list[str]()
    assert isinstance(content.type, Content)
    ids = await database.values(select(key).order_by(key))
    for start in range(0, len(ids), PAGE):
        page = select(key, type_coerce(content, Text)).where(key.in_(ids[start : start + PAGE]))
        async with database.write() as connection:
            # A row that a run changes after it was read would get digests of its former text.
            await database.lock(connection, lock)
            for id, stored in (await connection.execute(page)).all():
                try:
                    made = digests(cells.open(content.type.column, stored), id, cells)
                except StoreError as error:
                    _log.warning(
                        "row_not_indexed_again", table=table.name, row=id, fault=error.message
                    )
                    unreadable.append(id)
                    continue
                others = or_(*(table.c[name].is_distinct_from(was) for name, was in made.items()))
                change = update(table).where(key == id, others).values(made)
                changed += (await connection.execute(change)).rowcount
    return changed, unreadable


def _of_entry(text: str, id: str, cells: Cells) -> dict[str, object]:
    columns = row_of(entry_of(text, name=id), cells)
    return {name: columns[name] for name in ("categories", "name", "terms")}


def _of_tool(text: str, hash: str, cells: Cells) -> dict[str, object]:
    tool = read_stored(GeneratedTool, text, what=f"the made tool {hash}")
    return {"name": columns_of(tool, cells)["name"]}
