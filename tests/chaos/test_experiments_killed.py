"""An experiment of many runs whose worker and server are killed: each run once, the same report."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from embedded import embedded_model
from installation import Installation, installation
from pydantic import JsonValue
from server_process import ServerProcess, server_process
from waiting import eventually

from perdure.adapters.llm.embedded_facts import embedded_available
from perdure.gateway.experiments import Experiments
from perdure.interfaces.experiments.reading import Found, read_report
from perdure.submission.experiments import experiment_of
from perdure.submission.types import Surroundings

KILLS = (0.2, 0.6)
USAGE: JsonValue = {"input_tokens": 100, "output_tokens": 50}
RUBRIC: JsonValue = [
    {"name": "good", "evaluator": {"check": "contains", "all": ["good"]}},
    {"name": "great", "evaluator": {"check": "contains", "all": ["great"]}},
]
ARMS: JsonValue = {
    "loop": {},
    "single": {"refine.max_iterations": 1},
    "best_of": {"best_of": "same_tokens"},
}


@asynccontextmanager
async def laboratory(
    folder: Path, model_url: str | None = None
) -> AsyncGenerator[tuple[ServerProcess, Installation]]:
    """A server that may be killed, and an installation at it."""
    async with (
        server_process(folder) as server,
        installation(folder / "home", server.address, model_url=model_url) as site,
    ):
        yield server, site


async def begun(site: Installation, experiments: Experiments, id: str, inputs: int) -> None:
    """The loop reaches all of it with its second draft, except on every fifth input."""
    entry = {"times": 100_000, "usage": USAGE}
    replies: list[JsonValue] = [
        {**entry, "when": {"contains": "hard"}, "text": "good"},
        {**entry, "when": {"iteration": 1}, "text": "good"},
        {**entry, "when": {"iteration": 2}, "text": "good and great"},
    ]
    task: JsonValue = {
        "kind": "refine",
        "goal": "Write.",
        "context": {"about": None},
        "models": {"executor": await site.script({"replies": replies})},
        "rubric": RUBRIC,
        "refine": {"plan": "off", "classify": "off", "max_iterations": 2},
    }
    listed: list[JsonValue] = [
        {"about": f"{'hard' if number % 5 == 0 else 'plain'} thing {number}"}
        for number in range(inputs)
    ]
    data: JsonValue = {"task": task, "inputs": listed, "arms": ARMS, "parallel": 8}
    made = experiment_of(data, surroundings=Surroundings(folder=None))
    await experiments.start(made.plan, made.entries, id=id)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("inputs", [20, 200])
async def test_kills_of_worker_and_server_change_nothing(tmp_path: Path, inputs: int) -> None:
    async with laboratory(tmp_path) as (server, site), site.worker_process() as worker:
        experiments = site.gateway.experiments(site.parts.stores.experiments())
        await begun(site, experiments, "exp-killed", inputs)
        for share in KILLS:
            await eventually(lambda part=share: _reached(site, 3 * inputs * part), seconds=600)
            await worker.kill()
            await server.kill()
            await server.start()
            await worker.start()
        await eventually(lambda: _over(site), seconds=900)
        found = await read_report(experiments, "exp-killed")
        rows = await site.parts.stores.records.find_runs(prefix="exp-killed-", limit=100_000)
    runs = [one.run for trial in found.trials for one in trial.tries]
    assert len(runs) == len(set(runs)) == len(rows)
    assert found.report.ended == 3 * inputs
    assert _figures(found) == _undisturbed(inputs)


EMBEDDED: JsonValue = {
    "kind": "refine",
    "goal": "Write one short sentence about it.",
    "context": {"about": None},
    # At temperature 0, and one call after the other, equal prompts give equal text.
    "models": {
        "executor": "local",
        "settings": {"executor": {"temperature": 0, "max_output_tokens": 24}},
    },
    "rubric": [
        {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 12}},
        {"name": "names it", "evaluator": {"check": "contains", "any": ["stone", "river", "cup"]}},
    ],
    "refine": {"plan": "off", "classify": "off", "max_iterations": 2},
}
THINGS = ("stone", "river", "cup", "lamp", "road")


@pytest.mark.model
@pytest.mark.timeout(20_000)
@pytest.mark.skipif(not embedded_available().ok, reason="the model's wheels are not installed")
async def test_kills_change_nothing_with_the_embedded_model(tmp_path: Path) -> None:
    """Killed twice, and left alone; `TEST_INPUTS=200` makes it long."""
    inputs = int(os.environ.get("TEST_INPUTS", "4"))
    listed: list[JsonValue] = [
        {"about": f"{THINGS[number % len(THINGS)]} number {number}"} for number in range(inputs)
    ]
    # Tries for what the loop spent would be more or fewer, as the engine's cache is warm or not.
    arms: JsonValue = {
        "loop": {},
        "single": {"refine.max_iterations": 1},
        "best_of": {"best_of": 2},
    }
    data: JsonValue = {"task": EMBEDDED, "inputs": listed, "arms": arms, "parallel": 1}
    made = experiment_of(data, surroundings=Surroundings(folder=None))
    async with (
        embedded_model(tmp_path / "model") as url,
        laboratory(tmp_path, model_url=url) as (server, site),
        site.worker_process() as worker,
    ):
        experiments = site.gateway.experiments(site.parts.stores.experiments())
        await experiments.start(made.plan, made.entries, id="exp-killed")
        for share in KILLS:
            await eventually(lambda part=share: _reached(site, 3 * inputs * part), seconds=9_000)
            await worker.kill()
            await server.kill()
            await server.start()
            await worker.start()
        await eventually(lambda: _over(site), seconds=9_000)
        await experiments.start(made.plan, made.entries, id="exp-calm")
        await eventually(lambda: _over(site, "exp-calm"), seconds=9_000)
        killed, calm = [await read_report(experiments, id) for id in ("exp-killed", "exp-calm")]
        rows = await site.parts.stores.records.find_runs(prefix="exp-killed-", limit=100_000)
    runs = [one.run for trial in killed.trials for one in trial.tries]
    assert len(runs) == len(set(runs)) == len(rows)
    assert killed.report.ended == calm.report.ended == 3 * inputs
    # The engine is not quite the same twice: of 200 inputs, one got another text.
    one_input = 1 / inputs + 0.001
    for arm, (score, passed, *counts) in _figures(killed).items():
        same_score, same_passed, *same_counts = _figures(calm)[arm]
        assert counts == same_counts
        assert abs(score - same_score) <= one_input
        assert abs(passed - same_passed) <= one_input


async def _reached(site: Installation, ended: float) -> bool:
    totals = await site.parts.stores.experiments().totals(["exp-killed"])
    return totals["exp-killed"].ended >= ended


async def _over(site: Installation, id: str = "exp-killed") -> bool:
    stored = await site.parts.stores.experiments().get(id)
    return stored is not None and stored.state == "ended"


def _figures(found: Found) -> dict[str, tuple[float, float, int, int]]:
    return {
        arm.name: (arm.score.mean, arm.passed, arm.trials, arm.failed) for arm in found.report.arms
    }


def _undisturbed(inputs: int) -> dict[str, tuple[float, float, int, int]]:
    """What the script gives: every draft of a hard input and every first one is half right."""
    return {
        "loop": (0.9, 0.8, inputs, 0),
        "single": (0.5, 0.0, inputs, 0),
        "best_of": (0.5, 0.0, inputs, 0),
    }
