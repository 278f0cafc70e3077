"""Fixtures for drills: the life of an installation, not the death of a process.

A drill upgrades, takes a store away, collects garbage, floods, resets or restores, and then shows
that the result is that of the undisturbed run, that the books agree with the provider's ledger, and
that nothing is left running. The ground is that of the failure tests: a real server, and a provider
that writes its ledger before it answers.
"""

import base64
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import psycopg
import pytest
from ground import Ground, ground
from holding import Holding
from installation import Installation, installation
from postgresql import postgresql
from temporalio.testing import WorkflowEnvironment


@pytest.fixture
async def drill(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Ground]:
    """An installation without workers, the provider and the ledgers."""
    address = server.client.service_client.config.target_host
    monkeypatch.setenv("TOOL_LEDGER", str(tmp_path / "effects.jsonl"))
    async with ground(tmp_path, address) as made:
        yield made


@pytest.fixture
def holding(monkeypatch: pytest.MonkeyPatch) -> Holding:
    """Replies with `delay_s: HELD` wait until the drill lets them go."""
    made = Holding()
    made.install(monkeypatch)
    return made


@pytest.fixture(scope="session")
def postgresql_server() -> Generator[str]:
    """The URL of a server of this test process; ends with it."""
    with postgresql() as url:
        yield url


@pytest.fixture
def postgresql_url(postgresql_server: str) -> str:
    """The URL of an empty database; one a drill."""
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return postgresql_server


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.slow),
        pytest.param("sqlite-sealed", marks=pytest.mark.slow),
        "postgresql-sealed",
    ]
)
async def kept(
    request: pytest.FixtureRequest,
    server: WorkflowEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Installation]:
    """An installation without workers on each store, with and without an encryption key."""
    store, _, sealed = request.param.partition("-")
    settings: dict[str, str] = {}
    if store == "postgresql":
        settings["database_url"] = request.getfixturevalue("postgresql_url")
    if sealed:
        monkeypatch.setenv("DRILL_KEY", base64.b64encode(bytes(range(32))).decode())
        settings["encryption_key"] = "env:DRILL_KEY"
    address = server.client.service_client.config.target_host
    async with installation(tmp_path / "home", address, timing=None, **settings) as made:
        yield made
