"""R01, R02, R03, R05, R47: a worker that dies or goes loses nothing and counts nothing twice."""

import random
import time

import pytest
from ground import Ground
from provider import Play
from waiting import eventually

from perdure.domain.foundation.retry_policies import LOST_WORKERS
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import Answer

POINTS = ("before_begin", "after_begin", "after_answer", "after_commit", "in_workflow_task")
LOOK = ("effect.again", {"word": "a"})
# Heartbeat, sticky queue and 3 s are what it takes; the rest is for a machine that has other work
# too. Without a heartbeat a lost call would be waited for until its own limit, 10 minutes.
RECOVERY_S = 2.0 + 1.0 + 3.0 + 54.0


def two_turns() -> list[Play]:
    return [Play(text="", calls=[LOOK]), Play(text="", calls=[LOOK]), Play(text="done")]


async def gates_of(ground: Ground, run: str) -> tuple[Gate, ...]:
    return tuple((await ground.site.status(run)).gates)


async def replace_when_dead(ground: Ground, process: object, times: int = 1) -> None:
    for death in range(1, times + 1):
        await eventually(lambda death=death: ground.deaths() >= death)
        await process.start()  # type: ignore[attr-defined]


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
async def test_r01_a_kill_at_any_point_is_recovered(chaos: Ground, point: str) -> None:
    chaos.provider.plays = two_turns()
    passed = {"in_workflow_task": 3}.get(point, 1)
    async with chaos.process(f"{point}:{passed}") as process:
        run = await chaos.start()
        await eventually(lambda: chaos.deaths() == 1)
        died = time.monotonic()
        await process.start()
        started = time.monotonic()
        result = await chaos.site.gateway.result(run)
    assert (result.outcome, result.output) == ("accepted", "done")
    assert time.monotonic() - max(died, started) < RECOVERY_S
    await chaos.check(run, kills=1)
    lines, rows = chaos.provider.lines(), await chaos.site.parts.stores.journal.rows(run)
    expected = 4 if point == "after_answer" else 3
    assert len(lines) == expected, lines
    if point == "after_commit":
        assert {row.state for row in rows} == {"answered"}, "the journalled reply was not used"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
async def test_r01_kills_at_random_points(chaos: Ground, seed: int) -> None:
    chance = random.Random(seed)
    chaos.provider.plays = two_turns()
    point = f"{chance.choice(POINTS)}:{chance.randrange(3)}"
    async with chaos.process(point) as process:
        run = await chaos.start()
        await eventually(lambda: chaos.deaths() == 1)
        await process.start()
        result = await chaos.site.gateway.result(run)
    assert result.output == "done"
    await chaos.check(run, kills=1)


@pytest.mark.slow
async def test_r01_kill_while_the_provider_stalls(chaos: Ground) -> None:
    chaos.provider.plays = [[Play(gate="later"), Play(text="second")]]
    async with chaos.process() as process:
        run = await chaos.start()
        await chaos.billed(1)
        await process.kill()
        await process.start()
        result = await chaos.check(run, kills=1)
    assert result.output == "second"
    assert result.spend.unconfirmed["tokens"], "the lost attempt is booked"
    assert result.spend.model_calls == 2


@pytest.mark.slow
async def test_many_kills_of_one_call_end_nothing(chaos: Ground) -> None:
    """Each death books its attempt and reserves anew; after five a person is asked, by name."""
    chaos.provider.plays = [[Play(gate="never")] * 5 + [Play(text="at last")]]
    async with chaos.process() as process:
        run = await chaos.start(budget={"tokens": 2_000_000, "cost_usd": 20})
        for death in range(1, 6):
            await chaos.billed(death)
            await process.kill()
            await process.start()
        await eventually(lambda: gates_of(chaos, run))
        gate = (await gates_of(chaos, run))[0]
        assert gate.kind == "blocked"
        assert "lost 5 workers" in gate.prompt
        assert len(chaos.provider.lines()) == 5, "nobody is broken again before the answer"
        await chaos.verb(run, Answer(gate=gate.id, choice="retry", by="me"))
        result = await chaos.check(run, kills=5)
    assert result.output == "at last"
    assert len(chaos.provider.lines()) == 6


@pytest.mark.long
async def test_r03_no_activity_twice_after_a_kill_in_the_workflow_task(chaos: Ground) -> None:
    chaos.provider.plays = two_turns()
    async with chaos.process("in_workflow_task:2") as process:
        run = await chaos.start()
        await eventually(lambda: chaos.deaths() == 1)
        await process.start()
        await chaos.check(run, kills=1)
    events = await chaos.site.history(run)
    started = [event.get("activityTaskStartedEventAttributes") for event in events]
    attempts = [facts.get("attempt", 1) for facts in started if isinstance(facts, dict)]
    assert set(attempts) == {1}
    assert len(chaos.provider.lines()) == 3


@pytest.mark.long
@pytest.mark.parametrize(
    "grace",
    [
        pytest.param(30.0, id="inside the grace"),
        pytest.param(0.0, id="without grace", marks=pytest.mark.slow),
    ],
)
async def test_r05_graceful_stop_in_a_call(chaos: Ground, grace: float) -> None:
    first = Play(text="first", delay_s=1.5) if grace else Play(text="first", gate="never")
    chaos.provider.plays = [[first, Play(text="second")]]
    environment = {**chaos.environment(), "PERDURE_SHUTDOWN_GRACE_S": str(grace)}
    async with chaos.site.worker_process(**environment) as process:
        run = await chaos.start()
        await chaos.billed(1)
        await process.terminate()
        await process.start()
        result = await chaos.check(run, kills=1)
    assert result.output == ("first" if grace else "second")
    assert len(chaos.provider.lines()) == (1 if grace else 2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("tool", "outcome", "effects"),
    [
        ("effect.once", "effect_uncertain", 1),
        pytest.param("effect.again", "ok", 2, marks=pytest.mark.slow),
    ],
)
async def test_a_kill_in_a_tool(chaos: Ground, tool: str, outcome: str, effects: int) -> None:
    """I4: a tool that is not idempotent is never repeated, and the model is told."""
    chaos.provider.plays = [
        Play(text="", calls=[(tool, {"word": "a", "seconds": 30})]),
        Play(text="done"),
    ]
    async with chaos.process() as process:
        run = await chaos.start()
        await chaos.effected(1)
        await process.kill()
        chaos.go()
        await process.start()
        result = await chaos.check(run, kills=1)
    assert [call.outcome for call in result.iterations[0].calls] == [outcome]
    assert len(chaos.effects.read_text().splitlines()) == effects
    told = str(chaos.provider.bodies[-1]["messages"])
    assert ("uncertain" in told) == (outcome == "effect_uncertain")


@pytest.mark.long
async def test_a_worker_that_goes_leaves_its_tool_uncertain(chaos: Ground) -> None:
    chaos.provider.plays = [
        Play(text="", calls=[("effect.once", {"word": "a", "seconds": 30})]),
        Play(text="done"),
    ]
    environment = {**chaos.environment(), "PERDURE_SHUTDOWN_GRACE_S": "0"}
    async with chaos.site.worker_process(**environment) as process:
        run = await chaos.start()
        await chaos.effected(1)
        await process.terminate()
        await process.start()
        result = await chaos.check(run, kills=1)
    assert [call.outcome for call in result.iterations[0].calls] == ["effect_uncertain"]


@pytest.mark.parametrize(
    "stops", [1, pytest.param(LOST_WORKERS + 1, marks=pytest.mark.slow)], ids=["one", "many"]
)
async def test_planned_stops_count_against_no_tool(chaos: Ground, stops: int) -> None:
    """However often workers are stopped under a call that may be repeated, nobody is asked."""
    chaos.provider.plays = [
        Play(text="", calls=[("effect.again", {"word": "a", "seconds": 60})]),
        Play(text="done"),
    ]
    run = ""
    for effects in range(1, stops + 1):
        async with chaos.site.worker(shutdown_grace_s=0.0):
            run = run or await chaos.start()
            await chaos.effected(effects)
    async with chaos.site.worker():
        await chaos.effected(stops + 1)
        described = await chaos.site.handle(run).describe()
        assert [step.attempt for step in described.raw_description.pending_activities] == [1]
        chaos.go()
        result = await chaos.check(run, kills=stops)
    assert [call.outcome for call in result.iterations[0].calls] == ["ok"]


@pytest.mark.long
async def test_r47_the_best_survives_a_regression_and_a_kill(chaos: Ground) -> None:
    draft = "alpha beta gamma delta"
    chaos.provider.plays = [
        Play(text=draft), Play(text="alpha", gate="second"), Play(text="nothing at all"),
    ]  # fmt: skip
    words = {"check": "contains", "all": ["alpha", "beta", "gamma", "delta", "epsilon"]}
    async with chaos.process() as process:
        run = await chaos.start(
            kind="refine",
            rubric=[{"name": "words", "evaluator": words}],
            refine={"plan": "off", "regression_threshold": 0.2, "quality_threshold": 1.0},
            recall=False,
            tools={"access": "minimal"},
        )
        await chaos.billed(2)
        await process.kill()
        chaos.provider.open("second")
        await process.start()
        result = await chaos.check(run, kills=1)
    assert result.best is not None
    assert (result.best.iteration, result.output) == (1, draft)
