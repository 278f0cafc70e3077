"""Held-out checks of an experiment: the user's own code has its time, and no more."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest
from temporalio.testing import ActivityEnvironment

from perdure.activities import experiments
from perdure.activities.experiments import SettleTrial
from perdure.activities.support.aside import Aside
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.experiments.messages import SettleTrialReport, SettleTrialRequest
from perdure.domain.experiments.plan import Arm, Entry, Plan, Scoring
from perdure.domain.experiments.store import StoredExperiment
from perdure.domain.foundation.retry_policies import CHECK_S
from perdure.domain.run.result import RunResult, SpendReport
from perdure.domain.run.spec import Placement
from perdure.domain.run.status import StoredRun
from perdure.workflows.engine.activity_options import scoring_step

R = TypeVar("R")
NOW = datetime(2026, 1, 2, tzinfo=UTC)
ARMS = (Arm(name="loop", task={}),)
OWN = Rubric.model_validate([{"name": "d", "evaluator": {"check": "mine.judge"}}])


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    stores = await open_stores(tmp_path, None)
    yield stores
    await stores.close()


async def kept(stores: Stores, plan: Plan, result: RunResult) -> None:
    """Keep an experiment, and the run of its first trial as it ended."""
    experiment = StoredExperiment(id="e", plan=plan, inputs=0, digest="d", created_at=NOW)
    await stores.experiments().create(experiment, [Entry(name="a", context={})])
    row = StoredRun(
        id=result.id,
        kind="agent",
        goal="g",
        label=None,
        lifecycle="completed",
        outcome="accepted",
        started_at=NOW,
        ended_at=NOW,
        result=result.model_dump_json(),
    )
    await stores.records.put_run(row)


def ended(spend: SpendReport, *, output: str | None = None) -> RunResult:
    return RunResult(
        id="r",
        kind="agent",
        outcome="accepted",
        reason="completed",
        explanation="",
        spend=spend,
        output=output,
    )


async def settled(stores: Stores, *, aside: Aside = NotImplemented) -> SettleTrialReport:
    settling = SettleTrial(
        stores.experiments(),
        records=stores.records,
        journal=stores.journal,
        blobs=stores.blobs,
        checks=NotImplemented,
        aside=aside,
        opening=NotImplemented,
    )
    step = SettleTrialRequest(experiment="e", number=0, run="r")
    return await ActivityEnvironment().run(settling.settle_trial, step)


async def test_a_held_out_check_that_never_ends_leaves_its_output_unscored(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiments, "CHECK_S", 0.05)

    async def endless(call: Callable[[], R]) -> R:
        await asyncio.Event().wait()
        return call()

    scoring = Scoring(by="check", rubric=OWN)
    await kept(stores, Plan(name="n", arms=ARMS, scoring=scoring), ended(SpendReport(), output="o"))
    await asyncio.wait_for(settled(stores, aside=endless), 10)
    trial = await stores.experiments().trial("e", 0)
    assert trial is not None
    assert trial.ended
    assert trial.tries[0].unscored
    assert trial.tries[0].why == "the check did not end within 0.05 s"


def test_a_held_out_check_has_the_time_that_a_check_of_a_loop_has() -> None:
    """A step of twenty seconds was made again for ever, and called the check each time."""
    site = Placement(loops="loops", models="models", tools="tools")
    config = scoring_step(site, summary="settle r")
    limit, beat = config.get("start_to_close_timeout"), config.get("heartbeat_timeout")
    assert limit is not None
    assert limit.total_seconds() > CHECK_S >= site.timing.model_call
    assert beat is not None, "a lost worker is noticed long before"
