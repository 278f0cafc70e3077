"""Fixtures for tests that need a whole installation: `server`, `site` (with a worker), `bare`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from installation import Installation, dev_server, installation
from temporalio.testing import WorkflowEnvironment


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
