"""Rows are indexed with the current key again, whatever else is in the store or writes there."""

import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from remembering import learning
from sqlalchemy import insert, select, type_coerce, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import Text

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.encryption import Cells
from perdure.adapters.stores.key_use import blobs_by_key, rewrap, rows_by_key
from perdure.adapters.stores.memory import LOCK, SqlMemory, row_of
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.adapters.stores.tables import made_tools, memory, verdicts
from perdure.domain.memory.tokenizer import terms

LOST, OLD, NEW = (bytes([n]) * 32 for n in (1, 2, 3))


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncGenerator[Stores]:
    """Stores with a new key that hold a blob and entries of memory under the old one."""
    home = tmp_path / "home"
    before = await open_stores(home, encryption_keys=(OLD,))
    kept = SqlMemory(before.database)
    for id, text in (("bad", "bananas"), ("good", "green grapes"), ("lost", "lemons")):
        await kept.put(learning(id, text))
    await before.blobs.put(b"content")
    await before.close()
    opened = await open_stores(home, encryption_keys=(NEW, OLD))
    yield opened
    await opened.close()


async def found(database: Database, word: str) -> list[str]:
    """What is found without the old key."""
    (term,) = terms(word)
    query = select(memory.c.id).where(memory.c.terms.contains(database.cells.digest(term)))
    return await database.values(query)


async def test_rows_that_cannot_be_read_are_named_and_stop_nothing(stores: Stores) -> None:
    database = stores.database
    sealed = Cells(LOST).seal("memory.entry", "{}")
    async with database.write() as connection:
        await connection.execute(
            update(memory).where(memory.c.id == "bad").values(entry='{"kind": "newer"}')
        )
        lost = update(memory).where(memory.c.id == "lost")
        await connection.execute(lost.values(entry=type_coerce(sealed, Text)))
        await connection.execute(
            insert(made_tools).values(
                hash="h", name="n", state="made", made_at=learning().created, tool='{"newer": 1}'
            )
        )
    rows, blobs, unreadable = await rewrap(stores)
    assert unreadable == ("memory entry bad", "memory entry lost", "made tool h")
    assert (rows > 0, blobs) == (True, 1)
    assert await blobs_by_key(stores) == {database.cells.ids[0]: 1}
    assert await found(database, "grapes") == ["good"]


async def test_an_entry_that_a_run_changes_meanwhile_is_found_by_its_new_text(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = stores.database
    changed = row_of(learning("good", "green gooseberries"), database.cells)

    async def lock(connection: AsyncConnection, name: str, *, shared: bool = False) -> None:
        if name == LOCK:  # as PostgreSQL gives it, after the run that held it before
            await connection.execute(update(memory).where(memory.c.id == "good").values(changed))

    monkeypatch.setattr(database, "lock", lock)
    await rewrap(stores)
    assert await found(database, "gooseberries") == ["good"]
    assert await found(database, "grapes") == []


@pytest.mark.long
async def test_the_old_texts_are_not_held_all_at_once(tmp_path: Path) -> None:
    home, bytes_each, rows = tmp_path / "home", 20_000, 1_000
    before = await open_stores(home, encryption_keys=(OLD,))
    async with before.database.write() as connection:
        reply = {"reply": "x" * bytes_each, "written_at": learning().created}
        told = [{"key": f"{number}", **reply} for number in range(rows)]
        await connection.execute(insert(verdicts), told)
    await before.close()
    opened = await open_stores(home, encryption_keys=(NEW, OLD))
    tracemalloc.start()
    try:
        assert (await rewrap(opened))[0] == rows
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        await opened.close()
    assert peak < rows * bytes_each


async def test_a_text_that_was_written_with_the_old_key_meanwhile_is_encrypted_again(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, writing = stores.database, stores.database.write
    row = row_of(learning("good", "green gooseberries"), database.cells)
    sealed = Cells(OLD).seal("memory.entry", str(row["entry"]))
    change = update(memory).where(memory.c.id == "good")
    changes = [change.values({**row, "entry": type_coerce(sealed, Text)})]

    @asynccontextmanager
    async def later() -> AsyncGenerator[AsyncConnection]:
        while changes:  # by a process that writes with the former key still
            async with writing() as connection:
                await connection.execute(changes.pop())
        async with writing() as connection:
            yield connection

    monkeypatch.setattr(database, "write", later)
    await rewrap(stores)
    assert set(await rows_by_key(database)) == {database.cells.ids[0]}
    assert await found(database, "gooseberries") == ["good"]
