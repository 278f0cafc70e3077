"""Fixtures for drills: the life of an installation, not the death of a process.

A drill upgrades, takes a store away, collects garbage, floods, resets or restores, and then shows
that the result is that of the undisturbed run, that the books agree with the provider's ledger, and
that nothing is left running. The ground is that of the failure tests: a real server, and a provider
that writes its ledger before it answers.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from ground import Ground, ground
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
