"""Experiments, their inputs and trials, in both databases."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.encryption import Cells
from perdure.adapters.stores.experiments import WRITTEN_AT_ONCE, SqlExperiments
from perdure.adapters.stores.maintenance import named_by_rows
from perdure.adapters.stores.tables import experiment_trials
from perdure.domain.experiments.plan import Arm, Entry, Plan
from perdure.domain.experiments.store import Place, StoredExperiment, Totals
from perdure.domain.experiments.trials import Trial, Try, total_usd

NOW = datetime(2026, 1, 2, tzinfo=UTC)
BLOB = "sha256:" + "ab" * 32


def experiment(id: str = "e", **task: object) -> StoredExperiment:
    plan = Plan(name="n", arms=(Arm(name="loop", task=dict(task)),))  # type: ignore[arg-type]
    return StoredExperiment(id=id, plan=plan, inputs=0, digest="d", created_at=NOW)


def entries(*names: str) -> list[Entry]:
    return [Entry(name=name, context={"x": name}) for name in names]


def trial(number: int, *, ended: bool = True) -> Trial:
    one = Try(run=f"r{number}", outcome="accepted", score=0.5)
    return Trial(number=number, arm="loop", entry=number, tries=(one,), ended=ended)


@pytest.fixture
def store(database: Database) -> SqlExperiments:
    return SqlExperiments(database)


async def test_what_was_kept_is_read(store: SqlExperiments) -> None:
    assert await store.create(experiment(goal="g"), entries("a", "b"))
    found = await store.get("e")
    assert found == experiment(goal="g").model_copy(update={"inputs": 2})
    assert [entry.name for entry in await store.entries("e")] == ["a", "b"]
    assert await store.entry("e", 1) == Entry(name="b", context={"x": "b"})
    assert await store.entry("e", 2) is None
    assert await store.get("other") is None


async def test_an_id_is_taken_once(store: SqlExperiments) -> None:
    assert await store.create(experiment(), entries("a"))
    assert not await store.create(experiment(), entries("b", "c"))
    assert [entry.name for entry in await store.entries("e")] == ["a"]


async def test_many_inputs_keep_their_order(store: SqlExperiments) -> None:
    names = [f"n{number}" for number in range(2 * WRITTEN_AT_ONCE + 3)]
    await store.create(experiment(), entries(*names))
    assert [entry.name for entry in await store.entries("e")] == names


async def test_inputs_are_added_after_those_that_are_there(store: SqlExperiments) -> None:
    await store.create(experiment(), entries("a"))
    assert await store.add_entries("e", entries("b"), after=1)
    # Somebody who did not see them changes nothing.
    assert not await store.add_entries("e", entries("c"), after=1)
    assert [entry.name for entry in await store.entries("e")] == ["a", "b"]
    found = await store.get("e")
    assert found is not None
    assert found.inputs == 2


async def test_a_trial_is_replaced_by_its_later_state(store: SqlExperiments) -> None:
    await store.create(experiment(), entries("a"))
    await store.put_trial("e", trial(3, ended=False))
    assert (await store.totals(["e"]))["e"].ended == 0
    await store.put_trial("e", trial(3))
    await store.put_trial("e", trial(1))
    assert await store.trial("e", 3) == trial(3)
    assert [one.number for one in await store.trials("e")] == [1, 3]
    assert (await store.totals(["e"]))["e"].ended == 2
    assert await store.trial("e", 0) is None


async def test_how_it_stands(store: SqlExperiments) -> None:
    await store.create(experiment(), entries("a"))
    await store.note("e", "ended", reason="budget", at=NOW)
    found = await store.get("e")
    assert found is not None
    assert (found.state, found.reason, found.ended_at) == ("ended", "budget", NOW)
    await store.note("e", "running", at=NOW)
    found = await store.get("e")
    assert found is not None
    assert (found.state, found.reason, found.ended_at) == ("running", "", None)


async def test_the_newest_are_listed_first(store: SqlExperiments) -> None:
    for number, id in enumerate(["a", "b", "c"]):
        made = experiment(id).model_copy(update={"created_at": NOW.replace(day=1 + number)})
        await store.create(made, entries("x"))
    assert [one.id for one in await store.list(limit=2)] == ["c", "b"]


@given(
    days=st.lists(st.integers(1, 3), min_size=0, max_size=9),
    size=st.integers(min_value=1, max_value=4),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_pages_are_the_list_in_pieces(
    store: SqlExperiments, days: list[int], size: int
) -> None:
    for one in await store.list(limit=100):
        await store.delete(one.id)
    for number, day in enumerate(days):
        made = experiment(f"e{number}").model_copy(update={"created_at": NOW.replace(day=day)})
        await store.create(made, entries("x"))
    expected = [f"e{at}" for at in sorted(range(len(days)), key=lambda at: (-days[at], at))]
    found: list[StoredExperiment] = []
    while page := await store.list(limit=size, after=_place(found)):
        found += [one for one in page if isinstance(one, StoredExperiment)]
        assert len(found) <= len(days)
    assert [one.id for one in found] == expected


def _place(found: list[StoredExperiment]) -> Place | None:
    return Place(found[-1].created_at, found[-1].id) if found else None


COST = st.one_of(
    st.none(),
    st.decimals(min_value=0, max_value=2_000, allow_nan=False, places=12),
    st.decimals(min_value=0, max_value=1, allow_nan=False, places=15),
)
TRIES = st.builds(
    Try,
    run=st.uuids().map(str),
    outcome=st.just("accepted"),
    tokens=st.integers(0, 10**9),
    lost_tokens=st.integers(0, 9),
    cost_usd=COST,
    judge_tokens=st.integers(0, 9),
    judge_usd=COST,
)


@given(tried=st.lists(st.tuples(st.booleans(), st.lists(TRIES, max_size=3)), max_size=6))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_totals_are_what_all_trials_add_up_to(
    store: SqlExperiments, tried: list[tuple[bool, list[Try]]]
) -> None:
    await store.delete("e")
    await store.create(experiment(), entries("a"))
    for number, (ended, tries) in enumerate(tried):
        # What a trial had before its last state counts no more.
        await store.put_trial("e", trial(number, ended=not ended))
        kept = Trial(number=number, arm="loop", entry=0, tries=tuple(tries), ended=ended)
        await store.put_trial("e", kept)
    trials = await store.trials("e")
    totals = await store.totals(["e", "other"])
    assert totals["other"] == Totals()
    assert totals["e"] == Totals(
        ended=sum(one.ended for one in trials),
        spent_usd=total_usd([one.spent_usd for one in trials]),
        spent_tokens=sum(one.spent_tokens for one in trials),
    )


async def test_totals_read_no_trial(store: SqlExperiments, database: Database) -> None:
    await store.create(experiment(), entries("a"))
    await store.put_trial("e", trial(0))
    async with database.write() as connection:
        await connection.execute(update(experiment_trials).values(trial="unreadable"))
    assert (await store.totals(["e"]))["e"].ended == 1


async def test_trials_of_an_earlier_version_are_added_up(
    store: SqlExperiments, database: Database
) -> None:
    await store.create(experiment(), entries("a"))
    for number, tokens in enumerate((3, 4)):
        one = Try(run="r", outcome="accepted", tokens=tokens, cost_usd=Decimal("0.1"))
        await store.put_trial("e", trial(number).model_copy(update={"tries": (one,)}))
    old = update(experiment_trials).where(experiment_trials.c.number == 0)
    async with database.write() as connection:
        await connection.execute(old.values(tokens=None, pico_usd=None))
    expected = Totals(ended=2, spent_usd=Decimal("0.2"), spent_tokens=7)
    assert (await store.totals(["e"]))["e"] == expected


async def test_a_deleted_one_leaves_nothing(store: SqlExperiments) -> None:
    await store.create(experiment(), entries("a"))
    await store.put_trial("e", trial(0))
    assert await store.delete("e")
    assert not await store.delete("e")
    assert (await store.get("e"), await store.entries("e"), await store.trials("e")) == (
        None,
        [],
        [],
    )


async def test_what_a_plan_names_is_kept_by_garbage_collection(
    store: SqlExperiments, database: Database
) -> None:
    await store.create(experiment(models={"executor": f"scripted:{BLOB}"}), entries("a"))
    assert BLOB in await named_by_rows(database)


async def test_tasks_and_inputs_are_sealed_with_a_key(database_url: str) -> None:
    database = await Database.open(database_url, cells=Cells(b"k" * 32))
    try:
        store = SqlExperiments(database)
        await store.create(experiment(goal="a secret goal"), entries("a secret input"))
        async with database.read() as connection:
            for table in ("experiments", "experiment_inputs"):
                rows = (await connection.exec_driver_sql(f"SELECT * FROM {table}")).all()
                assert "secret" not in str(rows)
        found = await store.get("e")
        assert found is not None
        assert found.plan.arms[0].task == {"goal": "a secret goal"}
    finally:
        await database.close()
