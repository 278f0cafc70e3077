"""The table of what all runs spent: its period, its sums, and its file."""

import csv
import io
from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.budget.spend_report import (
    ALL_CALLS,
    InputSavings,
    Period,
    SpendCell,
    SpendFilter,
    SpendKey,
    SpendLine,
)
from perdure.interfaces.cli.views.costs import costs_view, spending_view
from perdure.interfaces.cli.views.layout import plain
from perdure.interfaces.spending import (
    MOST_LINES,
    Spending,
    csv_name,
    csv_text,
    everything,
    harmless,
    period_of,
    spending,
)

TODAY = date(2026, 3, 31)
DAYS = Period(since=date(2026, 1, 1), until=TODAY)


class KnownLedger:
    """Says the same lines of every period."""

    def __init__(self, *lines: SpendLine) -> None:
        self._lines = list(lines)

    async def spending(
        self, by: SpendKey, period: Period, only: SpendFilter = ALL_CALLS
    ) -> list[SpendLine]:
        return self._lines

    async def roll_up(self, *, before: datetime) -> int:
        raise NotImplementedError

    async def cells(self) -> list[SpendCell]:
        return [
            SpendCell(
                phase="executing",
                model=line.name or "",
                day="2026-01-02",
                learning=False,
                unconfirmed=False,
                line=line,
            )
            for line in self._lines
        ]

    async def savings(self, period: Period) -> InputSavings:
        return InputSavings()


class SavingLedger(KnownLedger):
    """Runs that ended in the period saved something."""

    async def savings(self, period: Period) -> InputSavings:
        return InputSavings(runs=1, input_tokens=25, naive_input_tokens=100)


@pytest.mark.parametrize(
    ("since", "until", "wanted"),
    [
        (None, None, (date(2026, 3, 2), TODAY)),
        (date(2026, 1, 1), None, (date(2026, 1, 1), TODAY)),
        (None, date(2026, 1, 30), (date(2026, 1, 1), date(2026, 1, 30))),
        (date(2026, 5, 1), None, (date(2026, 5, 1), date(2026, 5, 1))),
        (None, date.min, (date.min, date.min)),
    ],
)
def test_what_is_not_said_of_a_period_is_the_usual(
    since: date | None, until: date | None, wanted: tuple[date, date]
) -> None:
    found = period_of(since, until, today=TODAY)
    assert (found.since, found.until) == wanted


def test_a_period_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValueError, match="after the last day"):
        period_of(TODAY, date(2026, 1, 1), today=TODAY)


async def test_the_total_holds_what_no_line_shows() -> None:
    many = [SpendLine(name=f"l{n}", calls=1, known_cost_usd=Decimal(1)) for n in range(1_005)]
    table = await spending(KnownLedger(*many), "label", DAYS)
    assert len(table.lines) == MOST_LINES
    assert table.others is not None
    assert (table.others.calls, table.total.known_cost_usd) == (5, Decimal(1_005))
    assert len(csv_text(table).splitlines()) == MOST_LINES + 3


@pytest.mark.parametrize(
    ("only", "name"),
    [
        (SpendFilter(), "costs-by-run-"),
        (SpendFilter(label='../"; x="\u202e'), "costs-by-run-only-x-"),
        (SpendFilter(label="\u05d0"), "costs-by-run-only-some-"),
        (SpendFilter(model="a/b", unlabelled=True), "costs-by-run-only-a-b-unlabelled-"),
    ],
)
def test_the_name_of_a_file_says_that_only_some_calls_are_in_it(
    only: SpendFilter, name: str
) -> None:
    table = Spending(by="run", period=DAYS, only=only)
    assert csv_name(table) == f"{name}{DAYS.since}-{DAYS.until}.csv"


FORMULAS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "  =1",
    "\u200b=1",
    "\uff1d1",
    "\u00a0=1",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_name_becomes_a_formula(text: str) -> None:
    line = SpendLine(name=text, calls=1, known_cost_usd=Decimal("1E-7"))
    table = Spending(by="label", period=DAYS, lines=(line,), total=line)
    (_, row, total) = csv.reader(io.StringIO(csv_text(table), newline=""))
    assert row[0] == f"'{text}"
    assert row[6] == total[6] == "0.0000001"


@given(st.text())
def test_every_other_name_is_written_as_it_is(text: str) -> None:
    cell = harmless(text)
    assert cell in (text, f"'{text}")
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))


def test_a_shell_shows_the_same_lines() -> None:
    lines = (
        SpendLine(name="docs", calls=2, known_cost_usd=Decimal("0.5")),
        SpendLine(calls=1, unpriced_calls=1, known_cost_usd=Decimal("0.25")),
    )
    saved = InputSavings(runs=1, input_tokens=25, naive_input_tokens=100)
    told = plain(spending_view(Spending(by="label", period=DAYS, lines=lines, savings=saved)))
    assert "docs" in told and "$0.50" in told
    assert "no label" in told and "at least $0.25" in told
    assert "saved: 75 % of the prompt tokens of 1 run" in told


async def test_a_table_of_some_calls_says_so_and_has_no_savings() -> None:
    only = SpendFilter(model="m")
    table = await spending(SavingLedger(SpendLine(name="a-very-long-id" * 8)), "run", DAYS, only)
    assert (table.only, table.savings) == (only, InputSavings())
    assert "a-very-long-id" * 8 in plain(spending_view(table))
    assert (await spending(SavingLedger(), "day", DAYS)).savings.runs == 1


async def test_what_all_runs_ever_spent_is_one_reading() -> None:
    report = await everything(
        KnownLedger(
            SpendLine(name="a", calls=2, known_cost_usd=Decimal("0.25")),
            SpendLine(name="b", calls=1, unpriced_calls=1),
        )
    )
    assert {name: line.attempts for name, line in report.by_model.items()} == {"a": 2, "b": 1}
    assert (report.total.attempts, report.total.cost_usd) == (3, None)
    assert report.by_phase == {"executing": report.total}
    assert plain(costs_view(report)).splitlines()[1].startswith("all runs")
