"""What all runs spent in a period, for all interfaces: a table, also as CSV."""

import asyncio
import csv
import io
import re
from collections.abc import Sequence
from datetime import date

from perdure.domain.budget.spend_report import (
    ALL_CALLS,
    InputSavings,
    Ledger,
    Period,
    SpendFilter,
    SpendKey,
    SpendLine,
)
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.plain_text import folded
from perdure.domain.run.cost_report import CostReport, report_of
from perdure.interfaces.formatting import money

USUAL_DAYS = 30
MOST_LINES = 1_000
UNNAMED = {
    "label": "no label",
    "kind": "learning and deleted runs",
    "owner": "nobody known",
    "run": "deleted runs",
}
"""What stands in the line without a name."""
COLUMNS = (
    "calls", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens",
    "known_cost_usd", "unpriced_calls", "estimated_calls", "seconds",
)  # fmt: skip
NAME_CHARACTERS = 60
_NO_NAME = re.compile(r"[^A-Za-z0-9.]+")
# Spreadsheets read a cell that begins so as a formula; some also where signs that nobody sees, or
# wide forms (U+FF1D), stand for these.
_FORMULA = ("=", "+", "-", "@")
_BREAKS = ("\t", "\r", "\n")


class Spending(FrozenModel):
    """The spend of all runs in a period of whole days in UTC.

    `only` says which calls it holds. `total` holds all of these; `others` is what stands in no
    line, where there are more than 1,000. `savings` counts runs that ended in the period, by all
    models and labels; a table of some calls has none.
    """

    by: SpendKey
    period: Period
    only: SpendFilter = ALL_CALLS
    total: SpendLine = SpendLine()
    lines: tuple[SpendLine, ...] = ()
    others: SpendLine | None = None
    savings: InputSavings = InputSavings()


def period_of(since: date | None, until: date | None, *, today: date) -> Period:
    """The period: by default the 30 days up to today.

    Raises:
        ValueError: the first day is after the last one.
    """
    # A first day to come is a period of that day, not an error about today.
    last = until or max(today, since or today)
    first = since or _days_before(last, USUAL_DAYS - 1)
    if first > last:
        raise ValueError(f"{first} is after the last day, {last}")
    return Period(since=first, until=last)


async def spending(
    ledger: Ledger, by: SpendKey, period: Period, only: SpendFilter = ALL_CALLS
) -> Spending:
    """Read the table of a period."""
    lines, saved = await asyncio.gather(ledger.spending(by, period, only), ledger.savings(period))
    shown, rest = lines[:MOST_LINES], lines[MOST_LINES:]
    return Spending(
        by=by,
        period=period,
        only=only,
        total=_sum(lines),
        lines=tuple(shown),
        others=_sum(rest) if rest else None,
        savings=saved if only == ALL_CALLS else InputSavings(),
    )


async def everything(ledger: Ledger) -> CostReport:
    """What all runs ever spent, without naming them: one query for any number of runs."""
    return report_of((), await ledger.cells())


def cost_words(line: SpendLine) -> str:
    """What the calls cost; "at least" that, where the price of one is not known."""
    known = money(line.known_cost_usd)
    if not line.unpriced_calls:
        return known
    return f"at least {known}" if line.known_cost_usd else "unknown"


def csv_text(table: Spending) -> str:
    """The lines and their total as CSV (RFC 4180).

    Money is written in full. A name that a spreadsheet would take for a formula gets an apostrophe
    in front.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow((table.by, *COLUMNS))
    for line in table.lines:
        writer.writerow((harmless(line.name or ""), *_cells(line)))
    if table.others is not None:
        writer.writerow(("(others)", *_cells(table.others)))
    writer.writerow(("(total)", *_cells(table.total)))
    return text.getvalue()


def csv_name(table: Spending) -> str:
    """The file name for a download; it says that only some calls are in it."""
    only = ""
    if table.only != ALL_CALLS:
        told = [
            str(value)
            for value in (table.only.model, table.only.kind, table.only.label, table.only.owner)
            if value
        ]
        told += ["unlabelled"] if table.only.unlabelled else []
        told += ["unknown-kind"] if table.only.unknown_kind else []
        told += ["unowned"] if table.only.unowned else []
        plain = _NO_NAME.sub("-", " ".join(told)).strip("-.")[:NAME_CHARACTERS]
        only = f"-only-{plain or 'some'}"
    return f"costs-by-{table.by}{only}-{table.period.since}-{table.period.until}.csv"


def harmless(cell: str) -> str:
    """Foreign text as a cell that no spreadsheet takes for a formula."""
    led = folded(cell).lstrip().startswith(_FORMULA) or cell.startswith(_BREAKS)
    return f"'{cell}" if led else cell


def _cells(line: SpendLine) -> tuple[str, ...]:
    usage = line.usage
    return (
        str(line.calls),
        str(usage.input_tokens),
        str(usage.cache_read_tokens),
        str(usage.cache_write_5m_tokens + usage.cache_write_1h_tokens),
        str(usage.output_tokens),
        f"{line.known_cost_usd:f}",
        str(line.unpriced_calls),
        str(line.estimated_calls),
        str(line.seconds),
    )


def _sum(lines: Sequence[SpendLine]) -> SpendLine:
    total = SpendLine()
    for line in lines:
        total = total.plus(line)
    return total


def _days_before(day: date, days: int) -> date:
    return date.fromordinal(max(date.min.toordinal(), day.toordinal() - days))
