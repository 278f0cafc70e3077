"""Every store contract runs against SQLite and against a real PostgreSQL."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import psycopg
import pytest
from postgresql import postgresql

from perdure.adapters.stores import Database


@pytest.fixture(scope="session")
def postgresql_server() -> Generator[str]:
    """The URL of a server of this test process; ends with it."""
    with postgresql() as url:
        yield url


@pytest.fixture
def postgresql_url(postgresql_server: str) -> str:
    """The URL of an empty database; one a test."""
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return postgresql_server


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path / 'home' / 'stores.sqlite'}"


@pytest.fixture(params=["sqlite", "postgresql"])
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
