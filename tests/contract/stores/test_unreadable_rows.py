"""A row that this version cannot read is named, and hides no other, in both databases."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import Table, update

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.experiments import SqlExperiments
from perdure.adapters.stores.schedules import SqlSchedules
from perdure.adapters.stores.tables import (
    experiment_inputs,
    experiment_trials,
    experiments,
    schedules,
)
from perdure.domain.experiments.plan import Arm, Entry, Plan
from perdure.domain.experiments.store import StoredExperiment, UnreadableExperiment
from perdure.domain.experiments.trials import Trial
from perdure.domain.foundation.errors import Unreadable
from perdure.domain.schedules.plan import SchedulePlan, Times
from perdure.domain.schedules.store import UnreadableSchedule

NOW = datetime(2026, 1, 2, tzinfo=UTC)


async def spoil(database: Database, table: Table, column: str, *, at: dict[str, object]) -> None:
    where = [table.c[name] == value for name, value in at.items()]
    async with database.write() as connection:
        await connection.execute(update(table).where(*where).values({column: '{"x": 1'}))


async def test_an_experiment(database: Database) -> None:
    store = SqlExperiments(database)
    for id in ("a", "b"):
        plan = Plan(name=f"the {id}", arms=(Arm(name="loop", task={}),))
        made = StoredExperiment(id=id, plan=plan, inputs=1, digest="d", created_at=NOW)
        await store.create(made, [Entry(name="1")])
    await spoil(database, experiments, "plan", at={"id": "a"})
    bad, good = await store.list()
    assert good.id == "b"
    assert isinstance(bad, UnreadableExperiment)
    assert (bad.id, bad.name, bad.inputs, bad.state) == ("a", "the a", 1, "running")
    assert "experiment a" in bad.why
    assert "perdure experiment delete a" in bad.why
    with pytest.raises(Unreadable, match="the experiment a"):
        await store.get("a")


async def test_an_input_and_a_trial(database: Database) -> None:
    store = SqlExperiments(database)
    plan = Plan(name="n", arms=(Arm(name="loop", task={}),))
    made = StoredExperiment(id="a", plan=plan, inputs=2, digest="d", created_at=NOW)
    await store.create(made, [Entry(name="1"), Entry(name="2")])
    await store.put_trial("a", Trial(number=0, arm="loop", entry=0))
    await spoil(database, experiment_inputs, "entry", at={"experiment": "a", "position": 1})
    await spoil(database, experiment_trials, "trial", at={"experiment": "a", "number": 0})
    with pytest.raises(Unreadable, match="the input 2 of a"):
        await store.entries("a")
    for reading in (store.trials("a"), store.trial("a", 0)):
        with pytest.raises(Unreadable, match="a trial of a"):
            await reading


async def test_a_schedule(database: Database) -> None:
    store = SqlSchedules(database)
    for name in ("bad", "good"):
        plan = SchedulePlan(name=name, kind="agent", task={"goal": "g"}, times=Times(every_s=3_600))
        await store.put(plan, at=NOW, replace=False)
    await spoil(database, schedules, "plan", at={"name": "bad"})
    bad, good = await store.list()
    assert good.name == "good"
    assert isinstance(bad, UnreadableSchedule)
    assert "perdure schedule delete bad" in bad.why
    with pytest.raises(Unreadable, match="the schedule bad"):
        await store.get("bad")
    assert await store.mark_deleted("bad", at=NOW)
    assert [one.name for one in await store.list()] == ["good"]
