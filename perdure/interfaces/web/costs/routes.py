"""Costs of all runs in a period; the address holds the period and the grouping."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import get_args
from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import Response

from perdure.domain.budget.ledger import InputSavings, SpendKey, SpendLine
from perdure.interfaces.formatting import duration, model_name, money, one_line, plural, tokens
from perdure.interfaces.rest.costs import CSV
from perdure.interfaces.spending import Spending, csv_name, csv_text
from perdure.interfaces.web.api_calls import ApiProblem
from perdure.interfaces.web.visit import Here, Visit

PERIODS = (7, 30, 90)
UNNAMED = {"label": "no label", "kind": "deleted runs"}
NAME_CHARACTERS = 80
router = APIRouter()


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table as text.

    Args:
        share: its part of all costs, or of all calls if nothing has a price.
    """

    name: str
    address: str | None
    calls: str
    sent: str
    cached: str
    written: str
    cost: str
    time: str
    share: float


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A link that changes one setting of the table."""

    name: str
    address: str
    chosen: bool


@router.get("/costs")
async def show(visit: Here, by: str = "day", since: str = "", until: str = "") -> Response:
    """Show the table; an invalid period is reported above the form."""
    try:
        table = await _table(visit, by, since, until)
        found = None
    except ApiProblem as problem:
        if problem.status != 422:
            raise
        table, found = await _table(visit, "day", "", ""), problem
    period = table.period
    return visit.page(
        "costs/costs.html",
        status_code=found.status if found else 200,
        table=table,
        found=found,
        since=period.since.isoformat(),
        until=period.until.isoformat(),
        groupings=_groupings(table),
        periods=_periods(table, visit.site.now().date()),
        rows=rows_of(table),
        total=_row(table, table.total, 1.0, "All"),
        notes=notes_of(table),
        saved=saved_words(table.savings),
        download=f"/costs.csv?{_asked(table.by, period.since, period.until)}",
    )


@router.get("/costs.csv")
async def download(visit: Here, by: str = "day", since: str = "", until: str = "") -> Response:
    table = await _table(visit, by, since, until)
    named = {"content-disposition": f'attachment; filename="{csv_name(table)}"'}
    return Response(csv_text(table), media_type=CSV, headers=named)


def rows_of(table: Spending) -> tuple[Row, ...]:
    """The rows with their shares; days come newest first."""
    lines = list(reversed(table.lines)) if table.by == "day" else list(table.lines)
    rows = [_row(table, line, _share(line, table.total)) for line in lines]
    if table.others is not None:
        rows.append(_row(table, table.others, _share(table.others, table.total), "all others"))
    return tuple(rows)


def notes_of(table: Spending) -> tuple[str, ...]:
    """Why the sums may be incomplete or estimated."""
    total, told = table.total, list[str]()
    if total.unpriced_calls:
        told.append(
            f"{plural(total.unpriced_calls, 'call')} without a known price: “at least” marks sums"
            " that lack them. Write their prices into prices.yaml in the home folder."
        )
    if total.estimated_calls:
        told.append(
            f"{plural(total.estimated_calls, 'call')} counted at an estimate: the worker died,"
            " or the provider did not tell what was used."
        )
    return tuple(told)


def saved_words(saved: InputSavings) -> str:
    """How much prompt text was saved, in a sentence; empty if no run reports it."""
    if not saved.runs:
        return ""
    sent = f"{tokens(saved.input_tokens)} prompt tokens"
    if saved.share is None:
        return f"{plural(saved.runs, 'run')} that ended here sent {sent} and saved nothing."
    return (
        f"{plural(saved.runs, 'run')} that ended here sent {sent}. A loop that sends everything"
        f" again in each iteration would have sent {tokens(saved.naive_input_tokens)}."
    )


async def _table(visit: Visit, by: str, since: str, until: str) -> Spending:
    asked = {"by": by, "since": since, "until": until}
    return await visit.api.get("/costs", Spending, asked)


def _row(table: Spending, line: SpendLine, share: float, name: str | None = None) -> Row:
    usage = line.usage
    known = money(line.known_cost_usd)
    return Row(
        name=name or _named(table.by, line.name),
        address=_runs_of(table.by, line.name) if name is None else None,
        calls=f"{line.calls:,}",
        sent=tokens(usage.prompt_tokens - usage.cache_read_tokens),
        cached=tokens(usage.cache_read_tokens),
        written=tokens(usage.output_tokens),
        cost=known if line.cost_usd is not None else _at_least(line.known_cost_usd),
        time=duration(line.seconds),
        share=share,
    )


def _at_least(known: Decimal) -> str:
    return f"at least {money(known)}" if known else "unknown"


def _named(by: SpendKey, name: str | None) -> str:
    if name is None:
        return UNNAMED.get(by, "unknown")
    return one_line(model_name(name) if by == "model" else name, NAME_CHARACTERS)


def _runs_of(by: SpendKey, name: str | None) -> str | None:
    """The list of the runs in a row, if there is a filter for it."""
    if name is None or by not in ("kind", "label"):
        return None
    return f"/runs?{urlencode({by: name})}"


def _share(line: SpendLine, total: SpendLine) -> float:
    if total.known_cost_usd:
        return float(line.known_cost_usd / total.known_cost_usd)
    return line.calls / total.calls if total.calls else 0.0


def _groupings(table: Spending) -> Sequence[Shortcut]:
    since, until = table.period.since, table.period.until
    return [
        Shortcut(f"By {by}", f"/costs?{_asked(by, since, until)}", by == table.by)
        for by in get_args(SpendKey)
    ]


def _periods(table: Spending, today: date) -> Sequence[Shortcut]:
    found: list[Shortcut] = []
    for days in PERIODS:
        since = today - timedelta(days=days - 1)
        chosen = (table.period.since, table.period.until) == (since, today)
        address = f"/costs?{_asked(table.by, since, today)}"
        found.append(Shortcut(f"Last {days} days", address, chosen))
    return found


def _asked(by: SpendKey, since: date, until: date) -> str:
    return urlencode({"by": by, "since": since.isoformat(), "until": until.isoformat()})
