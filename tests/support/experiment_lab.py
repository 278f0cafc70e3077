"""Experiments of an installation, over a model of which each draft is better than the last."""

from collections.abc import Mapping
from typing import Any

from installation import Installation
from pydantic import JsonValue
from waiting import eventually

from perdure.domain.experiments.status import ExperimentStatus
from perdure.domain.experiments.trials import Trial
from perdure.gateway.experiments import Experiments
from perdure.interfaces.experiments.reading import Found, read_report
from perdure.submission.experiments import experiment_of
from perdure.submission.types import Surroundings

AROUND = Surroundings(folder=None)
RUBRIC: JsonValue = [
    {"name": "good", "evaluator": {"check": "contains", "all": ["good"]}},
    {"name": "great", "evaluator": {"check": "contains", "all": ["great"]}},
]
REFINE: JsonValue = {
    "plan": "off", "classify": "off", "max_iterations": 3, "quality_threshold": 1.0,
}  # fmt: skip


def better_each_time(*, delay_s: float = 0.0) -> dict[str, object]:
    """The first draft is good, the second one great."""
    usage = {"input_tokens": 100, "output_tokens": 50}
    entry = {"times": 10_000, "delay_s": delay_s, "usage": usage}
    return {
        "max_output": 200,
        "price": {"input_per_million": 10.0, "output_per_million": 10.0},
        "replies": [
            {**entry, "when": {"iteration": 1}, "text": "good"},
            {**entry, "when": {"iteration": 2}, "text": "good and great"},
        ],
    }


class Lab:
    """Experiments of one installation, as interfaces reach them."""

    def __init__(self, site: Installation) -> None:
        self.site = site
        self.experiments: Experiments = site.gateway.experiments(site.parts.stores.experiments())

    async def start(
        self,
        id: str,
        *inputs: str | None,
        script: Mapping[str, object] | None = None,
        **fields: Any,
    ) -> str:
        """Start an experiment of a refine task over these inputs."""
        model = await self.site.script(dict(script or better_each_time()))
        task: dict[str, JsonValue] = {
            "kind": "refine",
            "goal": "Write.",
            "context": {"about": None},
            "models": {"executor": model},
            "rubric": RUBRIC,
            "refine": REFINE,
            "budget": {"cost_usd": 1, "tokens": 10_000},
            **fields.pop("task", {}),
        }
        listed: list[JsonValue] = [{"about": text} for text in inputs]
        data: JsonValue = {"task": task, "inputs": listed, **fields}
        made = experiment_of(data, surroundings=AROUND)
        return await self.experiments.start(made.plan, made.entries, id=id)

    async def ended(self, id: str) -> ExperimentStatus:
        """Wait for the end."""
        await eventually(lambda: self._has_ended(id))
        return await self.experiments.status(id)

    async def _has_ended(self, id: str) -> bool:
        return not (await self.experiments.status(id)).open

    async def report(self, id: str) -> Found:
        return await read_report(self.experiments, id)

    async def trials(self, id: str) -> list[Trial]:
        return list(await self.experiments.trials(id))

    async def runs(self, id: str) -> list[str]:
        found = await self.site.parts.stores.records.find_runs(prefix=f"{id}-", limit=10_000)
        return sorted(run.id for run in found)
