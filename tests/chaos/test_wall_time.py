"""R04, R38: the wall clock goes on while a run is paused and while nobody works on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from ground import Ground, ground
from installation import dev_server
from invariants import executions
from provider import Play
from temporalio.api.enums.v1 import EventType
from temporalio.testing import TimeSkipper
from waiting import eventually

from perdure.domain.run.messages import Pause, Resume

LOOK = ("effect.again", {"word": "a"})
HOUR_S = 3_600.0
# What the test itself may take.
REAL_S = 60.0


@pytest.fixture
async def skipping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ground]:
    """A ground without workers on a server whose runs have clocks of their own."""
    monkeypatch.setenv("TOOL_LEDGER", str(tmp_path / "effects.jsonl"))
    option = "frontend.WorkflowTimeSkippingEnabled=true"
    async with (
        dev_server("--dynamic-config-value", option) as server,
        ground(tmp_path, server.client.service_client.config.target_host) as made,
    ):
        yield made


@pytest.mark.long
async def test_r38_pause_and_outage_count_as_wall_time(skipping: Ground) -> None:
    """Half an hour of pause and half an hour without worker spend a budget of one hour."""
    site = skipping.site
    skipper = TimeSkipper(site.client)
    async with site.worker():
        run = await _paused(skipping, hours=1)
        await skipper.fast_forward(site.handle(run), HOUR_S / 2)
        assert await _at_rest(skipping, run), "half of the time is left"
    await skipper.fast_forward(site.handle(run), HOUR_S / 2)
    async with site.worker():
        result = await skipping.check(run, kills=1)
    assert (result.outcome, result.reason) == ("deadline", "wall_time")
    assert abs(await _alarm_after(skipping, run) - HOUR_S) <= 1.0
    assert result.spend.wall_time_s >= HOUR_S
    assert len(skipping.provider.lines()) == 1


@pytest.mark.long
async def test_r04_an_hour_without_workers_is_no_failure(skipping: Ground) -> None:
    """What waits for a worker waits as long as it takes; no timeout is counted as an attempt."""
    site = skipping.site
    async with site.worker():
        run = await _paused(skipping, hours=2)
    await TimeSkipper(site.client).fast_forward(site.handle(run), HOUR_S)
    await site.handle(run).signal("resume", Resume())
    async with site.worker():
        result = await skipping.check(run, kills=1)
    assert (result.outcome, result.output) == ("accepted", "done")
    assert result.spend.wall_time_s >= HOUR_S
    rows = await site.parts.stores.journal.rows(run)
    assert {(row.attempt, row.state) for row in rows} == {(1, "answered")}
    assert len(skipping.provider.lines()) == 2


@pytest.mark.long
async def test_r38_a_resumed_run_has_what_is_left(skipping: Ground) -> None:
    """Ten hours of pause leave a run of eleven hours time to end."""
    site = skipping.site
    async with site.worker():
        run = await _paused(skipping, hours=11)
        await TimeSkipper(site.client).fast_forward(site.handle(run), 10 * HOUR_S)
        await skipping.verb(run, Resume())
        result = await skipping.check(run)
    assert (result.outcome, result.output) == ("accepted", "done")
    assert 10 * HOUR_S <= result.spend.wall_time_s < 10 * HOUR_S + REAL_S


async def _paused(ground: Ground, *, hours: int) -> str:
    """A run with so many hours of wall time that rests, one call of two behind it."""
    ground.provider.plays = [Play(text="", calls=[LOOK], gate="later"), Play(text="done")]
    run = await ground.start(budget={"wall_time": hours * HOUR_S})
    await ground.billed(1)
    await ground.verb(run, Pause())
    ground.provider.open("later")
    await eventually(lambda: _at_rest(ground, run))
    return run


async def _alarm_after(ground: Ground, run: str) -> float:
    """Seconds by the run's own clock from its start to the deadline's timer."""
    (history,) = await executions(ground.site, run)
    fired = [one for one in history.events if one.event_type == EventType.EVENT_TYPE_TIMER_FIRED]
    assert len(fired) == 1
    start = history.events[0].event_time.ToDatetime()
    return (fired[0].event_time.ToDatetime() - start).total_seconds()


async def _at_rest(ground: Ground, run: str) -> bool:
    status = await ground.site.status(run)
    return status.lifecycle == "paused" and status.step is None
