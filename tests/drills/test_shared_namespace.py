"""Two installations in one namespace: neither lists, answers or stops what is the other's."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from installation import Installation, installation
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed
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


SAYS = {"kind": "agent", "goal": "Say it.", "learn": False}


async def test_one_idempotency_key_is_a_run_for_each_of_them(
    site: Installation, neighbour: Installation
) -> None:
    script = {"replies": [{"text": "said"}]}
    ours = await site.start(SAYS, script, key="k")
    theirs = await neighbour.start(SAYS, script, key="k")
    assert ours != theirs
    assert await site.start(SAYS, script, key="k") == ours
    for one, run in ((site, ours), (neighbour, theirs)):
        assert (await one.gateway.result(run)).output == "said"
        assert [row.id for row in (await one.gateway.list()).runs] == [run]


async def test_an_id_that_is_taken_there_is_refused_here(
    site: Installation, neighbour: Installation
) -> None:
    script = {"replies": [{"text": "theirs"}]}
    run = await neighbour.start(SAYS, script, run_id="agent-taken")
    assert (await neighbour.gateway.result(run)).output == "theirs"
    with pytest.raises(NotAllowed, match="agent-taken belongs to a run of another installation"):
        await site.start(SAYS, script, run_id="agent-taken")
    assert await site.parts.stores.records.run("agent-taken") is None
    assert await neighbour.start(SAYS, script, run_id="agent-taken") == run
