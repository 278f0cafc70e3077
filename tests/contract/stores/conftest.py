"""Every store contract runs against SQLite and against a real PostgreSQL."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import pytest
from attempts import START
from object_store import bucket, faulty, s3_server
from postgresql import postgresql_server, postgresql_url

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.journal import SqlJournal

__all__ = ["bucket", "faulty", "postgresql_server", "postgresql_url", "s3_server"]


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path / 'home' / 'stores.sqlite'}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def database_url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return request.getfixturevalue("sqlite_url")
    return request.getfixturevalue("postgresql_url")


@pytest.fixture
async def database(database_url: str) -> AsyncGenerator[Database]:
    opened = await Database.open(database_url)
    yield opened
    await opened.close()


@pytest.fixture
async def sqlite(sqlite_url: str) -> AsyncGenerator[Database]:
    opened = await Database.open(sqlite_url)
    yield opened
    await opened.close()


@pytest.fixture
def journal(database: Database) -> SqlJournal:
    ticks = iter(range(1_000_000))
    return SqlJournal(database, now=lambda: START + timedelta(seconds=next(ticks)))
