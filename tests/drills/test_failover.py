"""How long a run stands still when the worker that holds all of it is killed.

    .venv/bin/pytest -n 0 -s tests/drills/test_failover.py

prints the figure beside the bound that the settings give. Nothing here judges it: the machine may
have other work.
"""

import time

import pytest
from ground import FAST
from hosts import Host, Hosts, two_hosts
from provider import Play

__all__ = ["two_hosts"]
MARGIN_S = 2.0


async def _hands(made: Hosts, run: str) -> set[str]:
    """The processes that took the run's workflow tasks and ended steps."""
    history = await made.ground.site.handle(run).fetch_history()
    started = (
        event.workflow_task_started_event_attributes.identity
        or event.activity_task_started_event_attributes.identity
        for event in history.events
    )
    return {identity for identity in started if identity}


async def _holder_of_the_call(made: Hosts, run: str) -> str:
    described = await made.ground.site.handle(run).describe()
    (pending,) = described.raw_description.pending_activities
    assert pending.activity_type.name == "call_model"
    return str(pending.last_worker_identity)


async def _only(host: Host, other: Host) -> None:
    """Let one host alone poll, whatever ran before."""
    await other.worker.kill()
    await host.worker.kill()
    await host.worker.start()


async def _failover(made: Hosts, lost: Host, other: Host, number: int) -> float:
    """Seconds from the kill of the worker that has it all to the next attempt of the call."""
    ground = made.ground
    before = len(ground.provider.lines())
    ground.provider.choose = lambda _: [Play(gate="never"), Play(text="done")]
    await _only(lost, other)
    run = await ground.start(goal=f"look for the {number}. time")
    await ground.billed(before + 1)
    assert await _holder_of_the_call(made, run) in await _hands(made, run)
    assert len(await _hands(made, run)) == 1, "the workflow is in the cache of the same worker"
    first = await _hands(made, run)
    await other.worker.start()
    began = time.time()
    await lost.worker.kill()
    await ground.billed(before + 2)
    seconds = ground.provider.lines()[before + 1].at - began
    result = await ground.site.gateway.result(run)
    assert (result.outcome, result.output) == ("accepted", "done")
    assert len(await _hands(made, run) - first) == 1, "the other worker went on"
    rows = await ground.site.parts.stores.journal.rows(run)
    assert sorted(row.state for row in rows) == ["answered", "lost"], rows
    return seconds


@pytest.mark.slow
async def test_the_other_worker_goes_on_with_a_call_of_one_that_was_killed(
    two_hosts: Hosts,
) -> None:
    one, two = two_hosts.hosts
    took = [
        await _failover(two_hosts, *pair, number)
        for number, pair in enumerate([(one, two), (two, one), (one, two)])
    ]
    bound = FAST.heartbeat + MARGIN_S
    told = ", ".join(f"{seconds:.1f}" for seconds in sorted(took))
    print(
        f"\nfrom the kill to the next attempt: {told} s;"
        f" heartbeat {FAST.heartbeat:g} s + {MARGIN_S:g} s = {bound:g} s"
    )
