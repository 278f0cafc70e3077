"""An experiment of many runs whose worker and server are killed: each run once, the same report."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from installation import Installation, installation
from pydantic import JsonValue
from server_process import ServerProcess, server_process
from waiting import eventually

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
async def laboratory(folder: Path) -> AsyncGenerator[tuple[ServerProcess, Installation]]:
    """A server that may be killed, and an installation at it."""
    async with (
        server_process(folder) as server,
        installation(folder / "home", server.address) as site,
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


@pytest.mark.parametrize(
    "inputs",
    [pytest.param(20, marks=pytest.mark.long), pytest.param(200, marks=pytest.mark.slow)],
)
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


async def _reached(site: Installation, ended: float) -> bool:
    totals = await site.parts.stores.experiments().totals(["exp-killed"])
    return totals["exp-killed"].ended >= ended


async def _over(site: Installation) -> bool:
    stored = await site.parts.stores.experiments().get("exp-killed")
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
