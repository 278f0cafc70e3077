"""R30, R37: a worker that an input breaks each time, and workers whose clocks are wrong."""

from pathlib import Path

import pytest
from ground import Ground
from provider import MODEL, Play
from waiting import eventually

from perdure.domain.foundation.retry_policies import LOST_WORKERS
from perdure.domain.run.messages import Answer

SUPPORT = Path(__file__).parents[1] / "support"
HOUR_S = 3_600.0


@pytest.mark.long
async def test_r30_an_input_that_breaks_every_worker_is_named(chaos: Ground) -> None:
    """It costs so many workers and no more; a person gives it up, and other runs go on."""
    chaos.provider.plays = [
        Play(text="", calls=[("effect.pill", {})]),
        Play(text="without the pill"),
        Play(text="another run"),
    ]
    async with chaos.process() as process:
        run = await chaos.start()
        for death in range(1, LOST_WORKERS + 1):
            await chaos.effected(death)
            await process.gone()
            await process.start(may_die=True)
        await eventually(lambda: _asked(chaos, run))
        gate = (await chaos.site.status(run)).gates[0]
        assert (gate.kind, gate.subject) == ("blocked", "effect.pill")
        await chaos.verb(run, Answer(gate=gate.id, choice="end", by="me"))
        result = await chaos.check(run, kills=LOST_WORKERS)
        other = await chaos.site.gateway.result(await chaos.start(goal="something else"))
    assert (result.outcome, result.output) == ("accepted", "without the pill")
    assert [call.outcome for call in result.iterations[0].calls] == ["error"]
    assert len(chaos.effects.read_text().splitlines()) == LOST_WORKERS
    assert other.output == "another run"


@pytest.mark.long
@pytest.mark.parametrize("hours", [(1, -1), (-1, 1)], ids=["ahead, then back", "back, then ahead"])
async def test_r37_clocks_of_workers_decide_nothing(chaos: Ground, hours: tuple[int, int]) -> None:
    """Deadlines, questions and spend go by the server's time, whatever the worker's clock says."""
    chaos.provider.plays = [
        [Play(gate="never"), Play(text="", calls=[("effect.approved", {"word": "a"})])],
        Play(text="done"),
    ]
    first, second = (skewed(chaos, hour) for hour in hours)
    async with chaos.site.worker_process(**first) as process:
        run = await chaos.start(
            budget={"wall_time": HOUR_S / 2, "active_time": HOUR_S / 2},
            gates={"timeout_s": HOUR_S / 2, "on_expiry": "end"},
        )
        await chaos.billed(1)
        await process.kill()
    async with chaos.site.worker_process(**second):
        await eventually(lambda: _asked(chaos, run))
        gate = (await chaos.site.status(run)).gates[0]
        assert gate.args_hash
        answer = Answer(gate=gate.id, choice="approve", args_hash=gate.args_hash, by="me")
        await chaos.verb(run, answer)
        result = await chaos.check(run, kills=1)
    assert (result.outcome, result.output) == ("accepted", "done")
    assert 0 <= result.spend.active_time_s <= result.spend.wall_time_s < HOUR_S / 2
    rows = await chaos.site.parts.stores.journal.rows(run)
    assert {row.model for row in rows} == {MODEL}
    began = result.started_at
    assert began is not None
    skews = {round((row.started_at - began).total_seconds() / HOUR_S) for row in rows}
    assert skews == set(hours), "the clocks of the workers were wrong indeed"


def skewed(ground: Ground, hours: int) -> dict[str, str]:
    """The environment of a worker whose clock is so many hours wrong."""
    given = dict(ground.environment())
    folder = SUPPORT / "wrong_clock"
    return {**given, "PYTHONPATH": f"{folder}:{given['PYTHONPATH']}", "WRONG_HOURS": str(hours)}


async def _asked(ground: Ground, run: str) -> bool:
    return bool((await ground.site.status(run)).gates)
