"""What all runs spent in a period, added up by the store, in both databases."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from account_books import FIRST, Books
from pydantic import ValidationError
from sqlalchemy import insert

from perdure.adapters.stores.access import SqlAudit
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.encryption import Cells
from perdure.adapters.stores.tables import schedule_starts
from perdure.domain.budget.spend_report import (
    ALL_CALLS,
    InputSavings,
    Period,
    SpendFilter,
    SpendKey,
    SpendLine,
)
from perdure.domain.llm.usage import Usage
from perdure.domain.run.audit import AuditEntry
from perdure.domain.run.cost_report import add_up, report_of

DAYS = Period(since=date(2026, 1, 2), until=date(2026, 1, 3))


@pytest.fixture
def books(database: Database) -> Books:
    return Books(database)


def costs(lines: list[SpendLine]) -> dict[str | None, Decimal]:
    return {line.name: line.known_cost_usd for line in lines}


async def test_days_are_in_order_and_end_at_midnight_utc(books: Books) -> None:
    await books.call("0.1")
    await books.call("0.2", days=1)
    await books.call("4", days=2)
    await books.call("8", days=-1)
    found = await books.ledger.spending("day", DAYS)
    assert costs(found) == {"2026-01-02": Decimal("0.1"), "2026-01-03": Decimal("0.2")}
    assert [line.name for line in found] == ["2026-01-02", "2026-01-03"]


async def test_money_is_added_exactly(books: Books) -> None:
    for _ in range(10):
        await books.call("0.1")
    await books.call("0.00000000000000000003")
    (line,) = await books.ledger.spending("model", DAYS)
    assert line.known_cost_usd == Decimal("1.00000000000000000003")
    assert (line.calls, line.seconds) == (11, 5.5)
    assert line.usage == Usage(input_tokens=110, output_tokens=22, cache_read_tokens=11)


async def test_what_has_no_price_makes_the_cost_unknown_not_smaller(books: Books) -> None:
    await books.call("0.5")
    await books.call(None)
    await books.call("0.25", confirmed=False)
    await books.call("0", sent=False)
    (line,) = await books.ledger.spending("model", DAYS)
    assert (line.cost_usd, line.known_cost_usd) == (None, Decimal("0.75"))
    assert (line.calls, line.unpriced_calls, line.estimated_calls) == (3, 1, 1)


async def test_models_kinds_and_labels_come_by_cost(books: Books) -> None:
    await books.run("a", label="docs")
    await books.run("b", kind="agent", label="docs")
    await books.run("c", kind="agent")
    await books.call("1", root="a", model="small")
    await books.call("2", root="a", run="a.w1-x", model="large")
    await books.call("4", root="b", model="small")
    await books.call("8", root="c", model="small")
    await books.call("16", root="deleted", model="small")
    by = {key: await books.ledger.spending(key, DAYS) for key in ("model", "kind", "label")}
    assert costs(by["model"]) == {"small": Decimal(29), "large": Decimal(2)}
    assert costs(by["kind"]) == {None: Decimal(16), "agent": Decimal(12), "refine": Decimal(3)}
    assert costs(by["label"]) == {None: Decimal(24), "docs": Decimal(7)}
    for lines in by.values():
        spent = [line.known_cost_usd for line in lines]
        assert spent == sorted(spent, reverse=True)


async def several(books: Books) -> None:
    await books.run("a", label="docs")
    await books.run("b", kind="agent", label="docs")
    await books.run("c", kind="agent")
    await books.call("1", root="a", model="small")
    await books.call("2", root="a", run="a.w1-x", model="large")
    await books.call("4", root="b", model="small", days=1)
    await books.call("8", root="c", model="small")
    await books.call("16", root="c", model="small", days=1)
    await books.call("32", root="gone", model="large")


@pytest.mark.parametrize(
    ("only", "behind"),
    [
        (ALL_CALLS, {"gone": 32, "c": 24, "b": 4, "a": 3}),
        (SpendFilter(model="small"), {"c": 24, "b": 4, "a": 1}),
        (SpendFilter(kind="agent"), {"c": 24, "b": 4}),
        (SpendFilter(label="docs"), {"b": 4, "a": 3}),
        (SpendFilter(label="docs", model="large"), {"a": 2}),
        (SpendFilter(unlabelled=True), {"gone": 32, "c": 24}),
        (SpendFilter(unknown_kind=True), {"gone": 32}),
        (SpendFilter(model="none"), {}),
    ],
)
async def test_runs_have_the_part_that_is_asked_for(
    books: Books, only: SpendFilter, behind: dict[str, int]
) -> None:
    await several(books)
    assert costs(await books.ledger.spending("run", DAYS, only)) == behind
    keys: tuple[SpendKey, ...] = ("day", "kind", "label", "model")
    for by in keys:
        told = costs(await books.ledger.spending(by, DAYS, only))
        assert sum(told.values()) == sum(behind.values())


async def test_the_runs_of_each_line_add_up_to_it(books: Books) -> None:
    await several(books)
    for by in ("kind", "label", "model"):
        for line in await books.ledger.spending(by, DAYS):
            nameless = {"unlabelled": by == "label", "unknown_kind": by == "kind"}
            only = SpendFilter.model_validate({by: line.name} if line.name else nameless)
            runs = await books.ledger.spending("run", DAYS, only)
            assert sum(run.known_cost_usd for run in runs) == line.known_cost_usd
            assert sum(run.calls for run in runs) == line.calls
    for line in await books.ledger.spending("day", DAYS):
        day = date.fromisoformat(line.name or "")
        runs = await books.ledger.spending("run", Period(since=day, until=day))
        assert sum(run.known_cost_usd for run in runs) == line.known_cost_usd


async def test_sealed_labels_are_added_up_as_plain_ones(tmp_path: Path) -> None:
    database = await Database.open(
        f"sqlite+aiosqlite:///{tmp_path / 'sealed.sqlite'}", cells=Cells(b"k" * 32)
    )
    try:
        books = Books(database)
        for run in ("a", "b"):
            await books.run(run, label="docs")
            await books.call("1", root=run)
        assert costs(await books.ledger.spending("label", DAYS)) == {"docs": Decimal(2)}
        only = SpendFilter(label="docs")
        assert costs(await books.ledger.spending("run", DAYS, only)) == {"a": 1, "b": 1}
    finally:
        await database.close()


async def test_savings_are_those_of_runs_that_ended_in_the_period(books: Books) -> None:
    told = (
        '{"type": "result", "newer": 1, "savings": {"naive_input_tokens": 100, "input_tokens": 40}}'
    )
    await books.run("a", result=told)
    await books.run("b", result=told)
    await books.run("b", result=told.replace("40", "60"))
    await books.run("c", result='{"savings": {}}')
    await books.run("d", result="no JSON")
    found = await books.ledger.savings(DAYS)
    assert found == InputSavings(runs=2, input_tokens=100, naive_input_tokens=200)
    assert found.share == 0.5
    later = Period(since=date(2026, 1, 3), until=date(2026, 1, 3))
    assert await books.ledger.savings(later) == InputSavings()
    assert InputSavings().share is None


async def test_nothing_was_spent(books: Books) -> None:
    assert await books.ledger.spending("label", DAYS) == []


def test_a_period_has_an_order() -> None:
    with pytest.raises(ValidationError, match="after until"):
        Period(since=date(2026, 1, 3), until=date(2026, 1, 2))
    assert Period(since=date.max, until=date.max).end.year == date.max.year


async def test_all_that_was_ever_spent_is_what_the_rows_add_up_to(books: Books) -> None:
    """Read in one statement, it is the report that adding up every row makes."""
    await books.run("a")
    await books.run("learn-more")  # a run that somebody named so
    for run in ("a", "a.w1-x", "learn-a", "learn-more"):
        await books.call("0.1", run=run)
        await books.call("0.25", run=run, confirmed=False, model="large", days=2)
        await books.call("0", run=run, sent=False, days=300)
    cells = await books.ledger.cells()
    own = [row for run in ("a", "a.w1-x", "learn-more") for row in await books.journal.rows(run)]
    assert report_of((), cells) == add_up((), own, learning=await books.journal.rows("learn-a"))
    assert report_of((), []) == add_up((), [])
    await books.call(None)
    assert report_of((), await books.ledger.cells()).total.cost_usd is None


async def test_what_was_learned_counts_under_the_label_of_the_run_it_was_learned_from(
    books: Books,
) -> None:
    await books.run("a", label="shop")
    await books.run("learn-more", label="other")  # a run that somebody named so
    await books.call("1", root="a")
    await books.call("0.2", root="learn-a")
    await books.call("0.03", root="learn-more")
    by_label = costs(await books.ledger.spending("label", DAYS))
    assert by_label == {"shop": Decimal("1.2"), "other": Decimal("0.03")}
    found = await books.ledger.spending("run", DAYS, SpendFilter(label="shop"))
    assert costs(found) == {"a": Decimal(1), "learn-a": Decimal("0.2")}
    assert [line.learned_from for line in found] == [None, "a"]
    assert await books.ledger.spending("run", DAYS, SpendFilter(unlabelled=True)) == []


async def test_who_caused_the_costs(books: Books, database: Database) -> None:
    trail = SqlAudit(database)
    told = [
        ("start", "allowed", "ann", "a", "refine"),
        ("start", "refused", "bob", "a", "refine"),
        ("start", "allowed", "ann", "a", "refine"),  # sent again
        ("experiment_started", "allowed", "bob", None, "experiment exp"),
        ("schedule_created", "allowed", "ann", None, "schedule news"),
        ("schedule_changed", "allowed", "eve", None, "schedule news"),
    ]
    for number, (action, outcome, who, run, about) in enumerate(told):
        await trail.put(
            AuditEntry.model_validate(
                {
                    "id": str(number), "at": FIRST, "last_at": FIRST, "action": action,
                    "outcome": outcome, "who": who, "run": run, "about": about,
                }
            )
        )  # fmt: skip
    await books.run("a")
    await books.run("exp-00001-1-loop", label="exp")
    await books.run("news-1")
    row = {
        "run": "news-1", "schedule": "news", "at": FIRST, "limit_usd": None, "limit_tokens": None,
        "lowered": False, "refused": None, "open": False,
    }  # fmt: skip
    async with database.write() as connection:
        await connection.execute(insert(schedule_starts).values(row))
    for cost, root in (
        ("1", "a"), ("0.5", "learn-a"), ("0.2", "exp-00001-1-loop"), ("0.1", "news-1"), ("7", "x"),
    ):  # fmt: skip
        await books.call(cost, root=root)
    owners = {"ann": Decimal("1.5"), "bob": Decimal("0.2"), "eve": Decimal("0.1"), None: Decimal(7)}
    assert costs(await books.ledger.spending("owner", DAYS)) == owners
    anns = await books.ledger.spending("run", DAYS, SpendFilter(owner="ann"))
    assert costs(anns) == {"a": Decimal(1), "learn-a": Decimal("0.5")}
    nobodys = await books.ledger.spending("run", DAYS, SpendFilter(unowned=True))
    assert costs(nobodys) == {"x": Decimal(7)}
