"""Two installations in one namespace: neither lists, answers or stops what is the other's."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from installation import Installation, installation
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.run.messages import Stop

WRITTEN = {"path": "a.md", "content": "a", "expected_hash": "absent"}
WRITES = {
    "replies": [{"tool_calls": [{"name": "fs.write", "arguments": WRITTEN}]}, {"text": "done"}]
}
TASK = {
    "kind": "agent",
    "goal": "Our secret plan.",
    "learn": False,
    "tools": {"access": "full", "approve": ["fs.write"]},
}


@pytest.fixture
async def neighbour(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Installation]:
    address = server.client.service_client.config.target_host
    async with installation(tmp_path / "neighbour", address) as made, made.worker():
        yield made


async def test_what_waits_there_is_nothing_of_ours(
    site: Installation, neighbour: Installation
) -> None:
    theirs = await neighbour.start(TASK, WRITES)

    async def asked() -> bool:
        return [one.run for one in (await neighbour.gateway.gates()).gates] == [theirs]

    await eventually(asked)
    found = await site.gateway.gates()
    assert (found.gates, found.unread) == ((), ())
    assert (await site.gateway.list()).runs == ()
    stopped = await site.gateway.verb_all(Stop(mode="now"))
    assert (stopped.taken, stopped.refused) == ((), {})
    assert [row.id for row in (await neighbour.gateway.list()).runs] == [theirs]
    stopped = await neighbour.gateway.verb_all(Stop(mode="now"))
    assert stopped.taken == (theirs,)
    assert (await neighbour.gateway.result(theirs)).outcome == "stopped"
