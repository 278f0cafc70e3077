"""Schedules and the books of their months, in both databases."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from attempts import answer, attempt

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.journal import SqlJournal
from perdure.adapters.stores.maintenance import named_by_rows
from perdure.adapters.stores.records import SqlRecords
from perdure.adapters.stores.schedules import SqlSchedules
from perdure.domain.budget.envelope import BudgetLimits
from perdure.domain.run.status import StoredRun
from perdure.domain.schedules.admission import Admitted, TurnedAway
from perdure.domain.schedules.plan import MonthlyBudget, SchedulePlan, Times

NOW = datetime(2026, 1, 15, tzinfo=UTC)
ASKED = BudgetLimits(cost_usd=Decimal("0.40"), tokens=None)
BLOB = "sha256:" + "cd" * 32


def plan(name: str = "news", *, usd: str | None = "1.00", zone: str = "UTC") -> SchedulePlan:
    return SchedulePlan(
        name=name,
        kind="agent",
        task={"goal": "g", "script": BLOB},
        times=Times(every_s=3_600, time_zone=zone),
        month=MonthlyBudget(cost_usd=None if usd is None else Decimal(usd)),
    )


@pytest.fixture
def store(database: Database) -> SqlSchedules:
    return SqlSchedules(database)


class Runs:
    """Runs of a schedule with what they spend, as rows."""

    def __init__(self, database: Database) -> None:
        self._records = SqlRecords(database)
        self._database = database
        self._number = 0

    async def open(self, run: str, *, ended: bool = False) -> None:
        await self._records.put_run(
            StoredRun(
                id=run, kind="agent", goal="g", label=None,
                lifecycle="completed" if ended else "running",
                outcome="accepted" if ended else None,
                started_at=NOW, ended_at=NOW if ended else None,
            )
        )  # fmt: skip

    async def call(self, root: str, *, tokens: int, at: datetime = NOW) -> None:
        """An answered call of `tokens` output tokens, a tenth of a cent each."""
        self._number += 1
        journal = SqlJournal(self._database, now=lambda: at)
        one = attempt(key=f"x/{self._number}", run=root).model_copy(update={"root": root})
        await journal.begin(one)
        await answer(journal, one, tokens=tokens)


@pytest.fixture
def runs(database: Database) -> Runs:
    return Runs(database)


async def admitted(store: SqlSchedules, run: str, at: datetime = NOW) -> Decimal | None:
    found = await store.admit("news", run, ASKED, at=at)
    assert isinstance(found, Admitted), found
    return found.cost_usd


async def test_what_was_kept_is_read_changed_and_ended(store: SqlSchedules) -> None:
    assert await store.put(plan(), at=NOW, replace=False)
    assert await store.put(plan(), at=NOW, replace=False), "the same again"
    assert not await store.put(plan(usd="2.00"), at=NOW, replace=False)
    later = NOW + timedelta(days=1)
    assert await store.put(plan(usd="2.00"), at=later, replace=True)
    found = await store.get("news")
    assert found is not None
    assert (found.plan, found.created_at, found.changed_at) == (plan(usd="2.00"), NOW, later)
    assert [one.plan.name for one in await store.list()] == ["news"]
    assert await store.mark_deleted("news", at=later)
    assert not await store.mark_deleted("news", at=later)
    assert await store.list() == []
    deleted = await store.get("news")
    assert deleted is not None
    assert deleted.deleted_at == later
    assert await store.put(plan(), at=later, replace=False), "the name is free again"
    assert await store.get("nothing") is None


async def test_a_schedule_keeps_the_blobs_of_its_task(
    store: SqlSchedules, database: Database
) -> None:
    await store.put(plan(), at=NOW, replace=False)
    assert BLOB in await named_by_rows(database)


async def test_runs_share_the_month(store: SqlSchedules, runs: Runs) -> None:
    await store.put(plan(), at=NOW, replace=False)
    assert await admitted(store, "a") == Decimal("0.40")
    await runs.open("a")
    assert await admitted(store, "b") == Decimal("0.40")
    await runs.open("b")
    assert await admitted(store, "c") == Decimal("0.20"), "what the open ones do not hold"
    await runs.open("c")
    refused = await store.admit("news", "d", ASKED, at=NOW)
    assert isinstance(refused, TurnedAway)
    assert "0 of 1.00 USD of this month are spent, and 3 open runs may still spend 1" in refused.why
    await runs.call("a", tokens=100)
    await runs.open("a", ended=True)
    assert await admitted(store, "d") == Decimal("0.30"), "a ended after 0.10"
    spend = await store.spend("news", at=NOW)
    assert (spend.cost_usd, spend.tokens, spend.holding) == (Decimal("0.100"), 100, 3)
    assert spend.held_usd == Decimal("0.90")


async def test_a_repeat_gets_what_the_run_was_given(store: SqlSchedules, runs: Runs) -> None:
    await store.put(plan(), at=NOW, replace=False)
    assert await admitted(store, "a") == Decimal("0.40")
    await runs.open("a")
    await runs.call("a", tokens=300)
    assert await admitted(store, "a") == Decimal("0.40"), "the worker died after the row"
    assert await admitted(store, "b") == Decimal("0.40")
    assert await admitted(store, "b") == Decimal("0.40"), "the worker died before it"
    assert [start.run for start in await store.starts("news")] == ["b", "a"]


async def test_a_start_that_never_came_gives_its_share_back(store: SqlSchedules) -> None:
    await store.put(plan(usd="0.40"), at=NOW, replace=False)
    await admitted(store, "a")
    assert isinstance(await store.admit("news", "b", ASKED, at=NOW), TurnedAway)
    assert await store.refusals("news", at=NOW) == 1
    later = NOW + timedelta(hours=2)
    assert await admitted(store, "b", at=later) == Decimal("0.40")
    assert await store.refusals("news", at=later) == 0, "b was refused, and is no more"


async def test_a_new_month_begins_in_the_zone_of_the_schedule(
    store: SqlSchedules, runs: Runs
) -> None:
    await store.put(plan(zone="Asia/Tokyo"), at=NOW, replace=False)
    new_year = datetime(2026, 1, 31, 15, 0, tzinfo=UTC)  # midnight in Tokyo
    await admitted(store, "a")
    await runs.call("a", tokens=990, at=new_year - timedelta(seconds=1))
    await runs.open("a", ended=True)
    before = await store.spend("news", at=new_year - timedelta(seconds=1))
    after = await store.spend("news", at=new_year)
    assert (before.cost_usd, after.cost_usd) == (Decimal("0.990"), Decimal(0))
    assert await admitted(store, "b", at=new_year) == Decimal("0.40")


async def test_what_a_run_learns_afterwards_counts_too(store: SqlSchedules, runs: Runs) -> None:
    await store.put(plan(), at=NOW, replace=False)
    await admitted(store, "a")
    await runs.open("a", ended=True)
    await runs.call("learn-a", tokens=5)
    await runs.call("learn-b", tokens=7)
    await runs.call("other", tokens=9)
    assert (await store.spend("news", at=NOW)).tokens == 5


async def test_starts_at_once_are_admitted_one_after_the_other(store: SqlSchedules) -> None:
    await store.put(plan(), at=NOW, replace=False)
    found = await asyncio.gather(
        *(store.admit("news", f"r{number}", ASKED, at=NOW) for number in range(8))
    )
    given = sorted(one.cost_usd or 0 for one in found if isinstance(one, Admitted))
    assert given == [Decimal("0.20"), Decimal("0.40"), Decimal("0.40")]
    assert sum(isinstance(one, TurnedAway) for one in found) == 5


async def test_a_deleted_schedule_still_counts_and_an_unknown_one_does_not(
    store: SqlSchedules,
) -> None:
    await store.put(plan(usd="0.40"), at=NOW, replace=False)
    await store.mark_deleted("news", at=NOW)
    assert await admitted(store, "late") == Decimal("0.40")
    assert await store.admit("else", "x", ASKED, at=NOW) is None
    assert (await store.spend("else", at=NOW)).tokens == 0
