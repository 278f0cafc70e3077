"""Makes an experiment's report from its rows in the store, without asking the server."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.domain.experiments.plan import Plan
from perdure.domain.experiments.thresholds import recorded_settings
from perdure.domain.experiments.trials import Trial
from perdure.interfaces.experiments.report import ExperimentReport, report

if TYPE_CHECKING:
    from perdure.gateway.experiments import Experiments


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A report with its sources; `entries` are the names of the inputs."""

    report: ExperimentReport
    plan: Plan
    trials: Sequence[Trial]
    entries: Sequence[str]


async def read_report(experiments: "Experiments", id: str) -> Found:
    """The report of an experiment so far; raises `NotFound` for an unknown one."""
    stored = await experiments.stored(id)
    trials = await experiments.trials(id)
    entries = await experiments.entries(id)
    names = [entry.name for entry in entries]
    # In a thread: over hundreds of trials it takes seconds, in which an API would answer nobody.
    made = await asyncio.to_thread(
        report,
        stored.plan,
        trials,
        id=id,
        state=stored.state,
        entries=names,
        settings=recorded_settings(stored.plan, entries),
    )
    return Found(report=made, plan=stored.plan, trials=trials, entries=names)
