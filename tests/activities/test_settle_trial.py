"""Settling a trial of an experiment: what its run spent counts, as far as it is known."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import JsonValue
from temporalio.testing import ActivityEnvironment

from perdure.activities import experiments
from perdure.activities.experiments import NoteExperiment, OpenTrial, SettleTrial, TrialRuns
from perdure.adapters.checks import RubricChecks
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.evaluation.checks import ContainsCheck
from perdure.domain.evaluation.rubric import Dimension, Rubric
from perdure.domain.experiments.messages import (
    NoteExperimentRequest,
    OpenTrialReport,
    OpenTrialRequest,
    SettleTrialRequest,
    StoredSpend,
)
from perdure.domain.experiments.plan import Arm, Entry, JudgeScore, Plan, Scoring, Tries
from perdure.domain.experiments.store import StoredExperiment
from perdure.domain.experiments.trials import Trial, Try
from perdure.domain.foundation.retry_policies import CHECK_S
from perdure.domain.llm.usage import Usage
from perdure.domain.run.result import RunResult, SpendReport
from perdure.domain.run.spec import Placement
from perdure.domain.run.status import StoredRun
from perdure.domain.turns.records import IterationRecord
from perdure.workflows.engine.activity_options import scoring_step

R = TypeVar("R")
NOW = datetime(2026, 1, 2, tzinfo=UTC)
OWN = Rubric.model_validate([{"name": "d", "evaluator": {"check": "mine.judge"}}])


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    stores = await open_stores(tmp_path, None)
    yield stores
    await stores.close()


def row_of(result: RunResult) -> StoredRun:
    return StoredRun(
        id=result.id,
        kind=result.kind,
        goal="g",
        label=None,
        lifecycle="completed",
        outcome=result.outcome,
        started_at=NOW,
        ended_at=NOW,
        result=result.model_dump_json(),
    )


def settling_with(stores: Stores, opening: TrialRuns = NotImplemented, **parts: Any) -> SettleTrial:
    return SettleTrial(
        stores.experiments(),
        records=stores.records,
        journal=stores.journal,
        blobs=stores.blobs,
        opening=opening,
        **{"checks": NotImplemented, "aside": NotImplemented, **parts},
    )


async def kept(stores: Stores, plan: Plan) -> None:
    experiment = StoredExperiment(id="e", plan=plan, inputs=0, digest="d", created_at=NOW)
    await stores.experiments().create(experiment, [Entry(name="a", context={})])


async def test_an_unpriced_call_hides_no_known_cost(stores: Stores) -> None:
    await kept(stores, Plan(name="n", arms=(Arm(name="loop", task={}),)))
    spend = SpendReport(tokens=7, cost_usd=None, known_cost_usd=Decimal("1.25"))
    result = RunResult(
        id="r", kind="agent", outcome="accepted", reason="completed", explanation="", spend=spend
    )
    await stores.records.put_run(row_of(result))
    step = SettleTrialRequest(experiment="e", number=0, run="r")
    report = await ActivityEnvironment().run(settling_with(stores).settle_trial, step)
    assert (report.cost_usd, report.tokens) == (Decimal("1.25"), 7)
    assert report.whole is not None
    assert report.whole.usd is None


@pytest.mark.parametrize(("counted", "tokens"), [(False, (7, 5, 12)), (True, (107, 25, 112))])
async def test_cache_reads_count_as_the_run_counts_them(
    stores: Stores, counted: bool, tokens: tuple[int, ...]
) -> None:
    budget: JsonValue = {"count_cache_reads": counted}
    await kept(stores, Plan(name="n", arms=(Arm(name="loop", task={"budget": budget}),)))
    used = Usage(input_tokens=7, cache_read_tokens=100)
    lost = Usage(input_tokens=5, cache_read_tokens=20)
    whole = (used + lost).counted_tokens(count_cache_reads=counted)
    spend = SpendReport(tokens=whole, usage=used, unconfirmed_usage=lost)
    result = RunResult(
        id="r", kind="refine", outcome="accepted", reason="completed", explanation="", spend=spend
    )
    await stores.records.put_run(row_of(result))
    record = IterationRecord(index=1, usage=used + Usage(input_tokens=5), started_at=NOW)
    await stores.records.put_record("r", 1, record.model_dump_json())
    step = SettleTrialRequest(experiment="e", number=0, run="r")
    await ActivityEnvironment().run(settling_with(stores).settle_trial, step)
    trial = await stores.experiments().trial("e", 0)
    assert trial is not None
    (one,) = trial.tries
    assert (one.tokens, one.lost_tokens, one.steps[0].tokens) == tokens


async def test_a_note_tells_known_costs_beside_unknown_ones_and_what_is_left(
    stores: Stores,
) -> None:
    await kept(stores, Plan(name="n", arms=(Arm(name="loop", task={}),)))
    known = Try(run="r", outcome="accepted", cost_usd=None, known_usd=Decimal("1.25"), tokens=7)
    for number, ended in enumerate((True, False, True)):
        trial = Trial(number=number, arm="loop", entry=number, tries=(known,), ended=ended)
        await stores.experiments().put_trial("e", trial)
    note = NoteExperiment(stores.experiments(), now=lambda: NOW).note_experiment
    step = NoteExperimentRequest(experiment="e", state="running")
    told = await ActivityEnvironment().run(note, step)
    assert told == StoredSpend(usd=Decimal("3.75"), tokens=21, following=1)
    counted = await ActivityEnvironment().run(note, step.model_copy(update={"counts": True}))
    assert counted == StoredSpend(usd=Decimal("3.75"), tokens=21, following=1, trials=1)


class Opened:
    """Notes which runs a step opens."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    async def open(
        self, run: str, task: dict[str, JsonValue], *, experiment: str
    ) -> OpenTrialReport:
        del task, experiment
        self.runs.append(run)
        return OpenTrialReport(run=run, kind="agent", input={})


JUDGED = Plan(
    name="n",
    arms=(Arm(name="best", task={"kind": "agent"}, tries=Tries(count=2)),),
    scoring=Scoring(by="judge", judge=JudgeScore(criteria="Is it true?", model="m")),
)


async def test_a_try_without_an_output_waits_for_no_judge(stores: Stores) -> None:
    await kept(stores, JUDGED)
    result = RunResult(
        id="e-00001-1-best",
        kind="refine",
        outcome="out_of_budget",
        reason="cost",
        explanation="There is nothing to show yet.",
    )
    await stores.records.put_run(row_of(result))
    record = IterationRecord(index=1, started_at=NOW)
    await stores.records.put_record(result.id, 1, record.model_dump_json())
    opened: Any = Opened()
    settle, opens = settling_with(stores, opened), OpenTrial(stores.experiments(), opened)
    step = SettleTrialRequest(experiment="e", number=0, run=result.id)
    settled = await ActivityEnvironment().run(settle.settle_trial, step)
    assert (settled.judge, settled.more) == (None, True)
    following = await ActivityEnvironment().run(
        opens.open_trial, OpenTrialRequest(experiment="e", number=0)
    )
    assert following.run == "e-00001-1-best-2"


async def test_no_judge_is_paid_for_a_run_that_somebody_stopped(stores: Stores) -> None:
    await kept(stores, JUDGED)
    result = RunResult(
        id="e-00001-1-best",
        kind="agent",
        outcome="stopped",
        reason="stopped",
        explanation="",
        output="Half a text.",
    )
    await stores.records.put_run(row_of(result))
    opened: Any = Opened()
    step = SettleTrialRequest(experiment="e", number=0, run=result.id)
    settled = await ActivityEnvironment().run(settling_with(stores, opened).settle_trial, step)
    assert (settled.judge, opened.runs) == (None, [])


def told(name: str, *, weight: float, needs: str) -> Dimension:
    check = ContainsCheck(check="contains", all=(needs,))
    return Dimension(name=name, weight=weight, evaluator=check)


async def test_a_held_out_rubric_without_weights_scores_by_the_plain_mean(stores: Stores) -> None:
    rubric = Rubric((told("a", weight=0, needs="oak"), told("b", weight=0, needs="elm")))
    scoring = Scoring(by="check", rubric=rubric)
    await kept(stores, Plan(name="n", arms=(Arm(name="a", task={}),), scoring=scoring))
    result = RunResult(
        id="r",
        kind="agent",
        outcome="accepted",
        reason="completed",
        explanation="",
        output="An oak.",
    )
    await stores.records.put_run(row_of(result))
    settling = settling_with(stores, checks=RubricChecks(), aside=asyncio.to_thread)
    step = SettleTrialRequest(experiment="e", number=0, run="r")
    await ActivityEnvironment().run(settling.settle_trial, step)
    trial = await stores.experiments().trial("e", 0)
    assert trial is not None
    assert trial.tries[0].held_out == 0.5


async def test_a_held_out_check_that_never_ends_leaves_its_output_unscored(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiments, "CHECK_S", 0.05)

    async def endless(call: Callable[[], R]) -> R:
        await asyncio.Event().wait()
        return call()

    scoring = Scoring(by="check", rubric=OWN)
    await kept(stores, Plan(name="n", arms=(Arm(name="loop", task={}),), scoring=scoring))
    result = RunResult(
        id="r", kind="agent", outcome="accepted", reason="completed", explanation="", output="o"
    )
    await stores.records.put_run(row_of(result))
    settling = settling_with(stores, aside=endless)
    step = SettleTrialRequest(experiment="e", number=0, run="r")
    await asyncio.wait_for(ActivityEnvironment().run(settling.settle_trial, step), 10)
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
