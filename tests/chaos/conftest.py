"""Fixtures for failure tests: an installation whose model is the provider with a ledger."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from ground import Ground, ground
from temporalio.testing import WorkflowEnvironment


@pytest.fixture
async def chaos(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Ground]:
    """An installation without workers, the provider and the ledgers."""
    address = server.client.service_client.config.target_host
    monkeypatch.setenv("TOOL_LEDGER", str(tmp_path / "effects.jsonl"))
    async with ground(tmp_path, address) as made:
        yield made


@pytest.fixture
async def served(chaos: Ground) -> AsyncIterator[Ground]:
    """The same with a worker inside this process."""
    async with chaos.site.worker():
        yield chaos
