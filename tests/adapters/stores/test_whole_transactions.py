"""A whole transaction takes one trip to a thread, and ends before whoever asked for it leaves."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, select, text

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.journal import SqlJournal
from perdure.adapters.stores.tables import seals
from perdure.domain.foundation.errors import StoreError
from perdure.domain.llm.usage import Usage
from tests.support.attempts import attempt

COUNT = text("SELECT count(*) FROM seals")
SEAL = text("INSERT INTO seals (execution, sealed_at) VALUES (:name, '2026-01-01')")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncGenerator[Database]:
    database = await Database.open(f"sqlite:///{tmp_path / 'store.sqlite'}")
    yield database
    await database.close()


def seal(connection: Connection, name: str) -> int:
    connection.execute(SEAL, {"name": name})
    return connection.execute(COUNT).scalar_one()


async def test_all_that_a_transaction_does_is_done_in_one_thread(database: Database) -> None:
    threads: list[int] = []

    def work(connection: Connection) -> int:
        threads.append(threading.get_ident())
        return seal(connection, "a") + seal(connection, "b")

    assert await database.write_whole(work) == 3
    assert threads != [threading.get_ident()]
    assert await database.read_whole(lambda connection: connection.scalar(COUNT)) == 2


async def test_what_raises_leaves_nothing(database: Database) -> None:
    def work(connection: Connection) -> None:
        seal(connection, "a")
        raise KeyError("b")

    with pytest.raises(KeyError):
        await database.write_whole(work)
    assert await database.read_whole(lambda connection: connection.scalar(COUNT)) == 0


async def test_an_error_tells_no_statement(database: Database) -> None:
    asked = select(seals.c.execution).where(seals.c.sealed_at == "no moment")
    with pytest.raises(StoreError) as caught:
        async with database.read() as connection:
            await connection.execute(asked)
    assert "SELECT" not in caught.value.message
    assert "sqlalche.me" not in caught.value.message


async def test_who_is_cancelled_leaves_when_it_has_ended(database: Database) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slowly(connection: Connection) -> None:
        seal(connection, "a")
        begun.set()
        may_end.wait()

    writing = asyncio.ensure_future(database.write_whole(slowly))
    await asyncio.to_thread(begun.wait)
    writing.cancel()
    # The next writer has its turn only after it.
    after = asyncio.ensure_future(database.write_whole(lambda connection: seal(connection, "b")))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.sleep(0)
    assert not writing.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert await after == 2


async def test_the_statements_of_a_turn_are_few(database: Database) -> None:
    """What a call's only attempt costs the store: three transactions, and no statement in vain."""
    sent: list[str] = []

    def note(_c: object, _k: object, statement: str, *_: object) -> None:
        sent.append(statement.split()[0])

    journal = SqlJournal(database)
    for engine in database.engines:
        event.listen(engine, "before_cursor_execute", note)
    await journal.begin(attempt())
    assert sent == ["BEGIN", "SELECT", "SELECT", "SELECT", "INSERT"]
    sent.clear()
    used = Usage(output_tokens=1)
    assert await journal.answer(attempt(), usage=used, cost_usd=None, reply="r", seconds=1.0)
    assert sent == ["BEGIN", "SELECT", "SELECT", "UPDATE", "INSERT"]
    sent.clear()
    await journal.account(attempt().key)
    assert sent == ["BEGIN", "SELECT"]
