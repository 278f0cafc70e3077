"""Schedules and the books of their months, in both databases."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from attempts import answer, attempt
from old_rows import put_as_before
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores import migrations, schedule_books
from perdure.adapters.stores.attempts import find
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.journal import SqlJournal
from perdure.adapters.stores.maintenance import named_by_rows
from perdure.adapters.stores.records import SqlRecords
from perdure.adapters.stores.schedules import SqlSchedules
from perdure.adapters.stores.tables import attempts, schedule_bookings
from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.budget.journal import Attempt
from perdure.domain.llm.usage import Usage
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


def stored(run: str, *, ended: bool = False) -> StoredRun:
    return StoredRun(
        id=run, kind="agent", goal="g", label=None,
        lifecycle="completed" if ended else "running",
        outcome="accepted" if ended else None,
        started_at=NOW, ended_at=NOW if ended else None,
    )  # fmt: skip


class Runs:
    """Runs of a schedule with what they spend, as rows."""

    def __init__(self, database: Database) -> None:
        self._records = SqlRecords(database)
        self._database = database
        self._number = 0

    async def open(self, run: str, *, ended: bool = False) -> None:
        await self._records.put_run(stored(run, ended=ended))

    async def delete(self, run: str) -> None:
        await self._records.delete_run(run)

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
    assert [one.name for one in await store.list()] == ["news"]
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


async def test_what_moves_to_the_sums_while_a_month_is_read_counts_once(
    store: SqlSchedules, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start adds the bookings to the sums, between the two that are read here."""
    await store.put(plan(), at=NOW, replace=False)
    await admitted(store, "a")
    await runs.open("a")
    await runs.call("a", tokens=100)
    starts, execute = ["b"], AsyncConnection.execute

    async def execute_and_start(self: AsyncConnection, statement: Any, *more: Any) -> Any:
        found = await execute(self, statement, *more)
        if starts and "FROM schedule_spend" in str(statement):
            await admitted(store, starts.pop())
        return found

    monkeypatch.setattr(AsyncConnection, "execute", execute_and_start)
    spend = await store.spend("news", at=NOW)
    assert not starts
    assert (spend.cost_usd, spend.tokens, spend.holding) == (Decimal("0.100"), 100, 1)


async def test_starts_at_once_are_admitted_one_after_the_other(store: SqlSchedules) -> None:
    await store.put(plan(), at=NOW, replace=False)
    found = await asyncio.gather(
        *(store.admit("news", f"r{number}", ASKED, at=NOW) for number in range(8))
    )
    given = sorted(one.cost_usd or 0 for one in found if isinstance(one, Admitted))
    assert given == [Decimal("0.20"), Decimal("0.40"), Decimal("0.40")]
    assert sum(isinstance(one, TurnedAway) for one in found) == 5


async def test_two_hundred_starts_at_once_keep_the_limit_exactly(store: SqlSchedules) -> None:
    await store.put(plan(usd="10.10"), at=NOW, replace=False)
    found = await asyncio.gather(
        *(store.admit("news", f"r{number}", ASKED, at=NOW) for number in range(200))
    )
    given = [one.cost_usd for one in found if isinstance(one, Admitted)]
    assert sorted(map(str, given)) == ["0.10", *["0.40"] * 25]
    assert (await store.spend("news", at=NOW)).held_usd == Decimal("10.10")


async def test_one_schedule_does_not_wait_for_another(
    store: SqlSchedules, database: Database
) -> None:
    if database.dialect_name == "sqlite":
        pytest.skip("SQLite has one writer for the whole file")
    for name in ("news", "else"):
        await store.put(plan(name), at=NOW, replace=False)
    async with database.write() as connection:
        await database.lock(connection, "schedule else")
        assert await admitted(store, "a") == Decimal("0.40")


CHANGES = ("answer", "lose", "fail", "unsent", "unpriced", "again", "seal")


async def _change(journal: SqlJournal, one: Attempt, change: str) -> None:
    usage, cost = Usage(input_tokens=3, cache_read_tokens=5), Decimal("0.003")
    match change:
        case "answer":
            await journal.answer(one, usage=usage, cost_usd=cost, reply="r", seconds=1)
        case "unpriced":
            await journal.answer(one, usage=usage, cost_usd=None, reply="u", seconds=1)
        case "lose":
            await journal.fail(one, usage=usage, cost_usd=cost, seconds=1, lost=True)
        case "fail":
            await journal.fail(one, usage=usage, cost_usd=cost, seconds=1)
        case "unsent":
            await journal.fail(one, usage=Usage(), cost_usd=None, seconds=0, sent=False)
        case "again":
            await journal.begin(one.model_copy(update={"attempt": one.attempt + 1}))
        case _:
            await journal.seal_and_sum(one.execution)


async def _naive(database: Database) -> tuple[Decimal, int, bool]:
    """The books read off the journal: what the running sums stand for."""
    async with database.read() as connection:
        rows = [
            row
            for row in await connection.run_sync(find, attempts.c.state != "started")
            if row.root in ("a", "learn-a")
        ]
    tokens = sum(
        row.usage.prompt_tokens - row.usage.cache_read_tokens + row.usage.output_tokens
        for row in rows
    )
    unpriced = any(row.sent and row.cost_usd is None for row in rows)
    return sum((row.cost_usd or Decimal(0) for row in rows), Decimal(0)), tokens, unpriced


async def test_the_books_say_what_the_journal_says_whatever_it_learns(
    store: SqlSchedules, runs: Runs, database: Database
) -> None:
    await store.put(plan(), at=NOW, replace=False)
    await admitted(store, "a")
    await runs.open("a")
    times = itertools.count()
    journal = SqlJournal(database, now=lambda: NOW + timedelta(minutes=next(times)))
    for number, changes in enumerate(itertools.product(CHANGES, repeat=2)):
        of = attempt(key=f"k{number}", execution=f"e{number}", run="a")
        one = of.model_copy(update={"root": ("a", "learn-a", "b")[number % 3]})
        await journal.begin(one)
        for change in changes:
            await _change(journal, one, change)
        if number % 5 == 0:
            await store.bring_up(forget_before=NOW - timedelta(days=40))
        found = await store.spend("news", at=NOW)
        assert (found.cost_usd, found.tokens, found.unpriced) == await _naive(database), changes
    held = (await store.spend("news", at=NOW)).held_usd
    await store.bring_up(forget_before=NOW - timedelta(days=40))
    after = await store.spend("news", at=NOW)
    assert (after.held_usd, after.cost_usd) == (held, (await _naive(database))[0])
    # They outlive the journal, until nobody asks for their month any more.
    async with database.write() as connection:
        await connection.exec_driver_sql("DELETE FROM replies")
        await connection.exec_driver_sql("DELETE FROM attempts")
    assert await store.spend("news", at=NOW) == after
    await store.bring_up(forget_before=NOW + timedelta(days=40))
    assert (await store.spend("news", at=NOW)).cost_usd == 0


async def test_a_start_that_is_broken_off_keeps_what_it_added_to_the_books(
    store: SqlSchedules, runs: Runs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an upgrade there may be more bookings than one step has time for."""
    monkeypatch.setattr(schedule_books, "PAGE", 2)
    monkeypatch.setattr(schedule_books, "MOST_PAGES", 2)
    await store.put(plan(usd="10.00"), at=NOW, replace=False)
    await admitted(store, "a")
    await runs.open("a")
    for _ in range(11):
        await runs.call("a", tokens=100)
    pages, add = itertools.count(1), schedule_books.Books._add

    async def adding(*given: Any) -> None:
        if next(pages) == 4:
            raise TimeoutError
        await add(*given)

    monkeypatch.setattr(schedule_books.Books, "_add", adding)
    before = await store.spend("news", at=NOW)
    with pytest.raises(TimeoutError):
        await admitted(store, "b")
    async with database.read() as connection:
        left = await connection.scalar(select(func.count()).select_from(schedule_bookings))
    assert left == 11 - 2 * 2
    assert await store.spend("news", at=NOW) == before
    assert await admitted(store, "b") == Decimal("0.40")
    assert (await store.spend("news", at=NOW)).cost_usd == before.cost_usd == Decimal("1.1")


BOOKS = 40


async def test_starts_from_before_the_books_are_in_them(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = migrations.migrations
    with monkeypatch.context() as patched:
        before = lambda dialect: tuple(s for s in steps(dialect) if s.number < BOOKS)  # noqa: E731
        patched.setattr(migrations, "migrations", before)
        old = await Database.open(database_url)
        async with old.write() as connection:
            for run in ("a", "b"):
                await connection.exec_driver_sql(
                    "INSERT INTO schedule_starts (run, schedule, at, limit_usd, lowered)"
                    f" VALUES ('{run}', 'news', '{NOW.isoformat()}', '0.40', false)"
                )
        await put_as_before(old, stored("a"))
        await put_as_before(old, stored("b", ended=True))
        runs = Runs(old)
        for root in ("a", "b", "learn-b"):
            await runs.call(root, tokens=100)
        await old.close()
    opened = await Database.open(database_url)
    store = SqlSchedules(opened)
    await store.put(plan(), at=NOW, replace=False)
    spend = await store.spend("news", at=NOW)
    assert (spend.cost_usd, spend.held_usd, spend.holding) == (Decimal("0.3"), Decimal("0.3"), 1)
    assert await admitted(store, "c") == Decimal("0.40")
    await opened.close()


async def test_a_run_that_goes_on_holds_its_part_again(store: SqlSchedules, runs: Runs) -> None:
    await store.put(plan(), at=NOW, replace=False)
    await admitted(store, "a")
    for ended, holding in ((False, 1), (True, 0), (False, 1)):
        await runs.open("a", ended=ended)
        assert (await store.spend("news", at=NOW)).holding == holding
    await runs.delete("a")
    assert (await store.spend("news", at=NOW)).holding == 0


async def test_a_deleted_schedule_still_counts_and_an_unknown_one_does_not(
    store: SqlSchedules,
) -> None:
    await store.put(plan(usd="0.40"), at=NOW, replace=False)
    await store.mark_deleted("news", at=NOW)
    assert await admitted(store, "late") == Decimal("0.40")
    assert await store.admit("else", "x", ASKED, at=NOW) is None
    assert (await store.spend("else", at=NOW)).tokens == 0
