"""Servers that restrict who uses them, as Temporal Cloud and a proxy with authorization do.

Commands and workers go through a proxy that refuses methods, keys and requests over a rate, lists
in short pages and late, and is away for a while. What it cannot give is named with its cure.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from installation import Installation, installation
from restricted import RestrictedServer, restricted
from temporalio.testing import WorkflowEnvironment

SPEC = {"kind": "agent", "goal": "say", "learn": False}
SCRIPT = {"replies": [{"text": "done"}], "exhausted": "repeat_last"}


@pytest.fixture
async def proxy(server: WorkflowEnvironment) -> AsyncIterator[RestrictedServer]:
    """A server that restricts nothing yet."""
    async with restricted(server.client) as made:
        yield made


@pytest.fixture
async def site(proxy: RestrictedServer, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation without workers that knows the server by its proxy alone."""
    async with installation(tmp_path / "home", proxy.address, heartbeat_s=10.0) as made:
        yield made


async def test_a_run_goes_through_a_server_that_restricts_nothing(
    site: Installation, proxy: RestrictedServer
) -> None:
    async with site.worker():
        assert (await site.run(SPEC, SCRIPT)).outcome == "accepted"
    assert proxy.asked["StartWorkflowExecution"] == 1
