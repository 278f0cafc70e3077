"""Rows of the journal that are rolled up: whatever went, every sum is what it was."""

import random
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal

import pytest
from account_books import FIRST, Books
from attempts import attempt
from sqlalchemy import func, select

from perdure.adapters.stores import journal_totals
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.erasure import SqlErasure
from perdure.adapters.stores.figures import SqlFigures
from perdure.adapters.stores.schedules import SqlSchedules
from perdure.adapters.stores.tables import attempts, replies, spend_totals
from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.budget.spend_report import ALL_CALLS, Period, SpendFilter
from perdure.domain.llm.usage import Usage
from perdure.domain.retention.erasure import Tombstone
from perdure.domain.schedules.plan import MonthlyBudget, SchedulePlan, Times

RUNS = ("a", "a.w1", "b", "c", "d", "learn-a", "learn-b", "never")
PERIODS = (
    Period(since=date(2026, 1, 1), until=date(2026, 2, 1)),
    Period(since=date(2026, 1, 3), until=date(2026, 1, 4)),
    Period(since=date(2000, 1, 1), until=date.max),
)
FILTERS = (
    ALL_CALLS,
    SpendFilter(model="m"),
    SpendFilter(kind="agent"),
    SpendFilter(label="l"),
    SpendFilter(unlabelled=True),
    SpendFilter(unknown_kind=True),
)
LATER = FIRST + timedelta(days=40)


class Installation:
    """Runs that spend at random, and all sums over what they spent."""

    def __init__(self, database: Database, seed: int) -> None:
        self.database, self.books = database, Books(database)
        self.figures, self.schedules = SqlFigures(database), SqlSchedules(database)
        self._random = random.Random(seed)

    async def fill(self, calls: int) -> None:
        plan = SchedulePlan(
            name="news", kind="agent", task={"goal": "g"}, times=Times(every_s=3_600),
            month=MonthlyBudget(cost_usd=Decimal(100)),
        )  # fmt: skip
        await self.schedules.put(plan, at=FIRST, replace=False)
        await self.schedules.admit("news", "b", BudgetLimits(cost_usd=Decimal(9)), at=FIRST)
        for run, kind, label in (
            ("a", "refine", "one"), ("a.w1", "agent", None), ("b", "agent", "two"),
            ("c", "roles", "one"), ("d", "agent", None),
        ):  # fmt: skip
            await self.books.run(run, kind=kind, label=label)
        for _ in range(calls):
            await self._call()

    async def _call(self) -> None:
        pick = self._random.choice
        run = pick(RUNS)
        root = run.partition(".")[0]
        model, days = pick(("m", "n")), pick(range(5))
        match pick(("answered", "unpriced", "unsent", "estimated", "lost", "settled", "begun")):
            case "answered":
                cost = str(Decimal(self._random.randrange(10**9)) / 10**9)
                await self.books.call(cost, root=root, run=run, model=model, days=days)
            case "unpriced":
                await self.books.call(None, root=root, run=run, model=model, days=days)
            case "unsent":
                await self.books.call("0", root=root, run=run, days=days, sent=False)
            case "estimated":
                await self.books.call("0.25", root=root, run=run, days=days, confirmed=False)
            case state:
                await self._unfinished(run, root, state)

    async def _unfinished(self, run: str, root: str, state: str) -> None:
        name = f"x{self._random.random()}"
        of = attempt(key=name, execution=name, run=run).model_copy(update={"root": root})
        await self.books.journal.begin(of)
        if state != "begun":
            usage = Usage(input_tokens=3)
            await self.books.journal.fail(of, usage=usage, cost_usd=None, seconds=1, lost=True)
        if state == "settled":
            await self.books.journal.reconcile(name)

    async def counted(self) -> None:
        while not await self.figures.count_calls(lost_before=LATER):
            pass

    async def sums(self) -> Mapping[str, object]:
        """Everything that anybody asks of the journal of all runs."""
        ledger, found = self.books.ledger, dict[str, object]()
        for number, period in enumerate(PERIODS):
            for by in ("day", "kind", "label", "model"):
                for only in FILTERS:
                    lines = await ledger.spending(by, period, only)
                    found[f"{by} {number} {only}"] = {line.name: line for line in lines}
        found["cells"] = {
            (one.phase, one.model, one.day, one.learning, one.unconfirmed): one.line
            for one in await ledger.cells()
        }
        found["counters"] = await self.figures.calls()
        found["ends"] = await self.figures.ends()
        found["month"] = await self.schedules.spend("news", at=FIRST)
        return found

    async def rows(self) -> dict[str, int]:
        async with self.database.read() as connection:
            counted = await connection.execute(
                select(attempts.c.run, func.count()).group_by(attempts.c.run)
            )
            return {run: count for run, count in counted.all()}  # noqa: C416

    async def drop(self, run: str, why: str) -> None:
        """A tree that a rule drops, a run that is erased, or one that is deleted."""
        if why == "deleted":
            await self.books.records.delete_run(run)
            return
        for row in await SqlErasure(self.database).tree(run):
            stone = Tombstone(
                run=row.id, root=run, kind=row.kind, label=row.label if why == "expired" else None,
                started_at=FIRST, at=LATER, why="expired" if why == "expired" else "erased",
            )  # fmt: skip
            if why == "expired":
                await self.books.records.delete_run(row.id, stone=stone)
            else:
                await SqlErasure(self.database).mark([stone], [], root=run, at=LATER)
                await SqlErasure(self.database).drop([row.id])


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
async def test_no_sum_changes_whatever_was_rolled_up(
    database: Database, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_totals, "PAGE", 7)
    site = Installation(database, seed)
    await site.fill(120)
    await site.counted()
    ledger = site.books.ledger
    for run, why in (("a", "expired"), ("b", "erased"), ("c", "deleted")):
        await site.drop(run, why)
        before, there = await site.sums(), await site.rows()
        early = await ledger.roll_up(before=FIRST + timedelta(days=2))
        assert await site.sums() == before
        rolled = early + await ledger.roll_up(before=LATER)
        assert rolled > 0
        assert await site.sums() == before
        assert sum((await site.rows()).values()) == sum(there.values()) - rolled
        assert await ledger.roll_up(before=LATER) == 0
    left = await site.rows()
    # A run that is kept keeps its rows; of those that are gone only what may yet change is there.
    assert left["d"] > 0
    async with database.read() as connection:
        query = select(attempts.c.state, attempts.c.settled).where(attempts.c.run != "d")
        states = set((await connection.execute(query)).all())
        assert states <= {("started", False), ("lost", False)}
        kept = select(func.count()).select_from(
            replies.join(attempts, attempts.c.key == replies.c.key)
        )
        assert await connection.scalar(kept) == await connection.scalar(
            select(func.count()).select_from(replies)
        )
        assert await connection.scalar(select(func.count()).select_from(spend_totals))


async def test_a_run_that_is_called_like_one_that_learned_keeps_its_label(
    database: Database,
) -> None:
    site = Installation(database, 0)
    for run, label in (("a", "one"), ("learn-a", "two"), ("b", "three")):
        await site.books.run(run, label=label)
        await site.books.call("0.5", root=run, run=run)
    await site.books.call("0.25", root="learn-b", run="learn-b")
    await site.counted()
    for run in ("learn-a", "a", "b"):
        await site.drop(run, "expired")
    before = await site.sums()
    assert await site.books.ledger.roll_up(before=LATER) == 4
    assert await site.sums() == before


async def test_what_monitoring_has_not_counted_stays(database: Database) -> None:
    site = Installation(database, 1)
    await site.books.call("1", root="gone")
    assert await site.books.ledger.roll_up(before=LATER) == 0
    await site.counted()
    assert await site.books.ledger.roll_up(before=LATER) == 1
    assert [line.calls for line in await site.figures.calls()] == [1]
