"""Settling a trial of an experiment: what its run spent counts, as far as it is known."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from perdure.activities.experiments import SettleTrial
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.experiments.messages import SettleTrialRequest
from perdure.domain.experiments.plan import Arm, Entry, Plan
from perdure.domain.experiments.store import StoredExperiment
from perdure.domain.run.result import RunResult, SpendReport
from perdure.domain.run.status import StoredRun

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    stores = await open_stores(tmp_path, None)
    yield stores
    await stores.close()


async def test_an_unpriced_call_hides_no_known_cost(stores: Stores) -> None:
    store = stores.experiments()
    plan = Plan(name="n", arms=(Arm(name="loop", task={}),))
    experiment = StoredExperiment(id="e", plan=plan, inputs=0, digest="d", created_at=NOW)
    await store.create(experiment, [Entry(name="a", context={})])
    spend = SpendReport(tokens=7, cost_usd=None, known_cost_usd=Decimal("1.25"))
    result = RunResult(
        id="r", kind="agent", outcome="accepted", reason="completed", explanation="", spend=spend
    )
    row = StoredRun(
        id="r",
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
    settling = SettleTrial(
        store,
        records=stores.records,
        journal=stores.journal,
        blobs=stores.blobs,
        checks=NotImplemented,
        aside=NotImplemented,
        opening=NotImplemented,
    )
    step = SettleTrialRequest(experiment="e", number=0, run="r")
    report = await ActivityEnvironment().run(settling.settle_trial, step)
    assert (report.cost_usd, report.tokens) == (Decimal("1.25"), 7)
    assert report.whole is not None
    assert report.whole.usd is None
