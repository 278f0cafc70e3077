"""Errors of databases in plain words, with nothing half written; migrations."""

import asyncio
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL, event, make_url, text

from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.journal import SqlJournal
from perdure.adapters.stores.maintenance import try_writing
from perdure.adapters.stores.migrations import Migration, migrations
from perdure.adapters.stores.open_stores import open_stores
from perdure.adapters.stores.records import SqlRecords
from perdure.domain.foundation.errors import InvalidInput, StoreAway, StoreError
from perdure.domain.llm.usage import Usage
from perdure.domain.run.status import StoredRun
from tests.contract.stores.programs.die import ATTEMPT


@contextmanager
def pragma(database: Database, setting: str) -> Generator[None]:
    """Every SQLite connection that is made meanwhile carries this setting."""

    def set_up(connection: sqlite3.Connection, _entry: object) -> None:
        connection.cursor().execute(f"PRAGMA {setting}")

    for engine in database.engines:
        event.listen(engine, "connect", set_up)
    try:
        yield
    finally:
        for engine in database.engines:
            event.remove(engine, "connect", set_up)


async def closed(database: Database) -> None:
    """Close all connections, so that the next ones are new."""
    await database.engine.dispose()
    for engine in database.engines[1:]:
        engine.dispose()


@contextmanager
def role(url: str, *changes: str) -> Generator[URL]:
    """The same database for a login of its own, to which these changes were made."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE narrow LOGIN")
        connection.execute("GRANT ALL ON SCHEMA public TO narrow")
        for change in changes:
            connection.execute(f"ALTER ROLE narrow {change}")  # type: ignore[arg-type]
    try:
        yield make_url(url).set(username="narrow")
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP OWNED BY narrow CASCADE")
            connection.execute("DROP ROLE narrow")


@pytest.mark.long
async def test_a_limit_of_connections_is_told_as_such(postgresql_url: str) -> None:
    with role(postgresql_url, "CONNECTION LIMIT 1") as url:
        database = await Database.open(url)
        async with database.read() as first:
            await first.execute(text("SELECT 1"))
            with pytest.raises(StoreAway, match=r"no connection left \(too many conn") as met:
                async with database.read() as second:
                    await second.execute(text("SELECT 1"))
            assert "limit of the role" in (met.value.cure or "")
        # Once there is room again, it goes on by itself.
        async with database.read() as connection:
            assert await connection.scalar(text("SELECT 1")) == 1
        await database.close()


@pytest.mark.long
async def test_a_login_that_is_refused_is_told_as_such(postgresql_url: str) -> None:
    with role(postgresql_url, "NOLOGIN") as url:
        with pytest.raises(StoreAway, match=r"refused the login.*not permitted to log in"):
            await Database.open(url)
        with pytest.raises(StoreAway, match=r"refused the login.*does not exist"):
            await Database.open(url.set(username="nobody-here"))


@pytest.mark.long
async def test_a_second_role_takes_over_from_the_first(postgresql_url: str, tmp_path: Path) -> None:
    """As docs/outages.md changes the password; later schemas stay the first role's."""
    owner = "SELECT tableowner FROM pg_tables WHERE tablename = 'later'"
    with role(postgresql_url) as url, psycopg.connect(postgresql_url, autocommit=True) as admin:
        before = await open_stores(tmp_path, url.render_as_string(hide_password=False))
        try:
            admin.execute("CREATE ROLE narrow2 LOGIN IN ROLE narrow")
            admin.execute("ALTER ROLE narrow2 SET role TO narrow")
            second = url.set(username="narrow2").render_as_string(hide_password=False)
            after = await open_stores(tmp_path, second)
            admin.execute("ALTER ROLE narrow NOLOGIN")
            await try_writing(after, tmp_path)
            async with after.database.write() as connection:
                await connection.execute(text("CREATE TABLE later (i int)"))
                assert await connection.scalar(text(owner)) == "narrow"
            await after.close()
        finally:
            await before.close()
            admin.execute("DROP ROLE IF EXISTS narrow2")


@pytest.mark.long
async def test_a_statement_timeout_is_told_and_nothing_is_written(postgresql_url: str) -> None:
    with role(postgresql_url, "SET statement_timeout = '300ms'") as url:
        database = await Database.open(url)

        async def write_slowly() -> None:
            async with database.write() as connection:
                await connection.execute(text("CREATE TABLE half (a INT)"))
                await connection.execute(text("SELECT pg_sleep(30)"))

        with pytest.raises(StoreAway, match="longer than its statement_timeout") as met:
            await write_slowly()
        assert "ALTER ROLE" in (met.value.cure or "")
        async with database.read() as connection:
            found = await connection.scalar(text("SELECT to_regclass('half')"))
        assert found is None
        await database.close()


@pytest.mark.long
async def test_a_transaction_that_idles_too_long_is_tried_again(postgresql_url: str) -> None:
    with role(postgresql_url, "SET idle_in_transaction_session_timeout = '300ms'") as url:
        database = await Database.open(url)

        async def dawdle() -> None:
            async with database.write() as connection:
                await connection.execute(text("SELECT 1"))
                await asyncio.sleep(1.5)
                await connection.execute(text("SELECT 1"))

        with pytest.raises(StoreAway, match="idle_in_transaction_session_timeout"):
            await dawdle()
        await database.close()


async def _answer(journal: SqlJournal, reply: str) -> bool:
    return await journal.answer(
        ATTEMPT, usage=Usage(output_tokens=1), cost_usd=Decimal(0), reply=reply, seconds=1
    )


async def test_a_full_disk_writes_nothing_and_heals(sqlite: Database) -> None:
    journal = SqlJournal(sqlite)
    await journal.begin(ATTEMPT)
    await closed(sqlite)
    with pragma(sqlite, "max_page_count=60"):
        with pytest.raises(StoreError, match=r"is full.*nothing was written.*Free disk space"):
            await _answer(journal, "x" * 2_000_000)
        assert [row.state for row in await journal.rows("run")] == ["started"]
        await closed(sqlite)
    assert await _answer(journal, "x" * 2_000_000)
    assert [row.state for row in await journal.rows("run")] == ["answered"]


async def test_a_locked_file_is_waited_for_then_named(sqlite: Database) -> None:
    records = SqlRecords(sqlite)
    await closed(sqlite)
    holder = sqlite3.connect(sqlite.engine.url.database or "", isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        with pragma(sqlite, "busy_timeout=20"):
            with pytest.raises(StoreError, match="locked by another process"):
                await records.put_record("r", 1, "{}")
            # Who only reads is not held up.
            assert await records.records("r") == []
        holder.execute("ROLLBACK")
        await records.put_record("r", 1, "{}")
        assert await records.records("r") == ["{}"]
    finally:
        holder.close()


async def test_a_read_only_file_is_named(sqlite: Database) -> None:
    await closed(sqlite)
    with pragma(sqlite, "query_only=ON"), pytest.raises(StoreError, match="read-only"):
        await SqlRecords(sqlite).put_record("r", 1, "{}")


async def test_every_connection_is_safe(sqlite: Database) -> None:
    async with sqlite.read() as first, sqlite.read() as second:
        for connection in (first, second):
            found = [
                await connection.scalar(text(f"PRAGMA {name}"))
                for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
            ]
            assert found == ["wal", 2, 10_000, 1]


async def test_only_the_owner_can_read_the_database(sqlite: Database) -> None:
    file = Path(sqlite.engine.url.database or "")
    assert {path.stat().st_mode & 0o077 for path in (file, file.parent)} == {0}


async def test_a_failure_inside_a_transaction_undoes_it(database: Database) -> None:
    async def fail_half_way() -> None:
        async with database.write() as connection:
            await connection.execute(text("INSERT INTO workspaces (id, path) VALUES ('a', '/a')"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_half_way()
    assert await SqlRecords(database).workspaces() == {}


async def test_a_broken_statement_is_a_store_error(database: Database) -> None:
    with pytest.raises(StoreError, match="no_such_table"):
        async with database.read() as connection:
            await connection.execute(text("SELECT * FROM no_such_table"))


@pytest.mark.parametrize("number", [2**63, 10**20, -(10**20)])
async def test_a_number_beyond_range_is_the_callers_error(database: Database, number: int) -> None:
    with pytest.raises(InvalidInput, match=r"A number is too large.*Give a smaller one"):
        await SqlRecords(database).put_record("r", number, "{}")


async def test_writers_of_one_process_take_turns(database: Database) -> None:
    """The turn survives what SQLite's own poll would not: many writers at once."""
    records = SqlRecords(database)
    await asyncio.gather(*(records.put_record("r", n, "{}") for n in range(1, 41)))
    assert len(await records.records("r")) == 40


async def test_opening_again_changes_nothing(database_url: str) -> None:
    databases = await asyncio.gather(*(Database.open(database_url) for _ in range(4)))
    async with databases[0].read() as connection:
        versions = (await connection.scalars(text("SELECT number FROM schema_versions"))).all()
    for opened in databases:
        await opened.close()
    assert list(versions) == [step.number for step in migrations(databases[0].dialect_name)]


async def test_opening_needs_no_writing(sqlite: Database) -> None:
    await SqlRecords(sqlite).put_record("r", 1, "{}")
    holder = sqlite3.connect(sqlite.engine.url.database or "", isolation_level=None)
    try:
        # Nobody can write now; opening must not need to.
        holder.execute("BEGIN IMMEDIATE")
        again = await Database.open(sqlite.engine.url)
        assert await SqlRecords(again).records("r") == ["{}"]
        await again.close()
    finally:
        holder.close()


NEWEST = migrations("sqlite")[-1].number


@pytest.mark.parametrize(
    ("serves", "refused"),
    [([None], True), ([NEWEST + 1], True), ([NEWEST], False), ([1, NEWEST], False),
     ([NEWEST, None], True)],
    ids=["says nothing", "not us", "us", "all of several", "not all of several"],
)  # fmt: skip
async def test_a_newer_database_is_refused_unless_it_serves_older_code(
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    serves: list[int | None],
    refused: bool,
) -> None:
    """As after a rollback: a newer version has migrated what this one opens."""
    with monkeypatch.context() as newer:
        later = [
            Migration(NEWEST + 2 + at, "later", (f"CREATE TABLE later_{at} (a TEXT)",), serves=one)
            for at, one in enumerate(serves)
        ]
        newer.setattr(
            "perdure.adapters.stores.migrations.migrations",
            lambda dialect: (*migrations(dialect), *later),
        )
        await (await Database.open(database_url)).close()
        await (await Database.open(database_url)).close()
    if refused:
        words = rf"has schema {NEWEST + 1 + len(serves)}.*Run the newer version"
        with pytest.raises(StoreError, match=words):
            await Database.open(database_url)
        return
    database = await Database.open(database_url)
    await SqlRecords(database).put_record("r", 1, "{}")
    await database.close()


async def test_another_file_is_no_database(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database, and long enough to be sure of it. " * 50)
    with pytest.raises(StoreError, match=r"notes\.txt is not an SQLite database"):
        await Database.open(f"sqlite:///{file}")


async def test_a_file_in_the_way_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(StoreError, match="cannot be opened"):
        await open_stores(tmp_path / "home")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://user:hunter2@host/db", "type 'mysql'"),
        ("hunter2", "cannot be read"),
        ("sqlite://", "names no file"),
    ],
    ids=["other product", "no url", "memory"],
)
async def test_an_unusable_url_is_the_callers_error(url: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        await Database.open(url)
    assert "hunter2" not in str(caught.value)


async def test_a_server_that_is_away_is_named_without_the_password() -> None:
    with pytest.raises(StoreError, match="cannot be reached") as caught:
        await Database.open("postgresql://user:hunter2@127.0.0.1:1/db")
    assert "hunter2" not in str(caught.value)


async def test_a_read_only_server_is_named(postgresql_url: str) -> None:
    database = await Database.open(postgresql_url)
    await database.close()
    option = "&options=-c%20default_transaction_read_only=on"
    read_only = await Database.open(postgresql_url + option)
    try:
        with pytest.raises(StoreError, match="is read-only"):
            await SqlRecords(read_only).put_record("r", 1, "{}")
    finally:
        await read_only.close()


async def test_installations_on_one_search_path_stay_apart(postgresql_url: str) -> None:
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA second")
    try:
        ids: set[str] = set()
        for option in ("", "&options=-c%20search_path=second,public"):
            database = await Database.open(postgresql_url + option)
            ids.add(await SqlRecords(database).installation())
            await database.close()
        assert len(ids) == 2
    finally:
        with psycopg.connect(postgresql_url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA second CASCADE")


@pytest.mark.parametrize("of", ["id", "goal"])
async def test_a_text_with_nul_is_the_callers_error(postgresql_url: str, of: str) -> None:
    """Not a server that is away: a step would wait for it for days."""
    row = StoredRun(
        id="a",
        kind="agent",
        goal="g",
        label=None,
        lifecycle="running",
        outcome=None,
        started_at=utc_now(),
    ).model_copy(update={of: "a\0b"})
    database = await Database.open(postgresql_url)
    try:
        with pytest.raises(InvalidInput, match=r"NUL.*Remove NUL characters"):
            await SqlRecords(database).put_run(row)
        with pytest.raises(InvalidInput, match="Remove NUL characters"):
            await SqlRecords(database).find_runs(prefix="a\0b")
    finally:
        await database.close()


async def test_a_stuck_row_lock_is_named(postgresql_url: str) -> None:
    database = await Database.open(f"{postgresql_url}&options=-c%20lock_timeout=50")
    try:
        await SqlRecords(database).put_record("r", 1, "{}")
        with psycopg.connect(postgresql_url) as holder:
            holder.execute("UPDATE iterations SET record = 'held'")
            with pytest.raises(StoreError, match="held a row locked"):
                await SqlRecords(database).put_record("r", 1, "{}")
            holder.rollback()
        await SqlRecords(database).put_record("r", 1, "{}")
    finally:
        await database.close()


async def test_a_path_may_look_like_a_url(tmp_path: Path) -> None:
    home = tmp_path / "a b?c=%20#d"
    stores = await open_stores(home)
    await stores.records.put_record("r", 1, "{}")
    await stores.close()
    assert (home / "perdure.sqlite").is_file()
