"""Fixtures for tests that need a whole installation: `server`, `site` (with a worker), `bare`."""

import gc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from installation import Installation, dev_server, installation
from temporalio.testing import WorkflowEnvironment


def pytest_collection_finish() -> None:
    """Spare the garbage collector what was collected: it stays to the end.

    With thousands of tests a full round takes over a second, and a workflow task in whose thread it
    happens to run is taken for a deadlock, for which the SDK allows two seconds.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """One dev server per test process."""
    async with dev_server() as environment:
        yield environment


@pytest.fixture
async def bare(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation without workers."""
    address = server.client.service_client.config.target_host
    async with installation(tmp_path / "home", address) as made:
        yield made


@pytest.fixture
async def site(bare: Installation) -> AsyncIterator[Installation]:
    """An installation with one worker in this process."""
    async with bare.worker():
        yield bare
