"""Costs of all runs in a period; the address holds the period, the grouping and the filters."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, get_args
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from perdure.domain.budget.spend_report import (
    ALL_CALLS,
    InputSavings,
    Period,
    SpendFilter,
    SpendKey,
    SpendLine,
)
from perdure.interfaces.formatting import duration, model_name, one_line, plural
from perdure.interfaces.rest.costs import CSV, asked_calls
from perdure.interfaces.spending import UNNAMED, Spending, cost_words, csv_name, csv_text
from perdure.interfaces.web.api_calls import ApiProblem
from perdure.interfaces.web.visit import Here, Visit

PERIODS = (7, 30, 90)
NAME_CHARACTERS = 80
router = APIRouter()

Only = Annotated[SpendFilter, Depends(asked_calls)]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table as text.

    Args:
        address: what it is made of: the runs behind it, or the run that it is.
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
async def show(
    visit: Here, only: Only, by: str = "day", since: str = "", until: str = ""
) -> Response:
    """Show the table; an invalid period is reported above the form."""
    try:
        table = await _table(visit, by, since, until, only)
        found = None
    except ApiProblem as problem:
        if problem.status != 422:
            raise
        # The usual table, so that the form and its links are there to correct it with.
        table, found = await _table(visit, "day", "", "", only), problem
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
        total=total_of(table),
        only=only_words(table.only),
        kept=_given(table.only),
        everything=f"/costs?{_asked(table.by, period)}",
        notes=notes_of(table),
        saved=saved_words(table.savings),
        download=f"/costs.csv?{_asked(table.by, period, table.only)}",
    )


@router.get("/costs.csv")
async def download(
    visit: Here, only: Only, by: str = "day", since: str = "", until: str = ""
) -> Response:
    table = await _table(visit, by, since, until, only)
    named = {"content-disposition": f'attachment; filename="{csv_name(table)}"'}
    return Response(csv_text(table), media_type=CSV, headers=named)


def rows_of(table: Spending) -> tuple[Row, ...]:
    """The rows with their shares; days come newest first."""
    lines = list(reversed(table.lines)) if table.by == "day" else list(table.lines)
    rows = [
        _row(line, _share(line, table.total), _named(table.by, line), _behind(table, line))
        for line in lines
    ]
    if table.others is not None:
        rows.append(_row(table.others, _share(table.others, table.total), "all others", None))
    return tuple(rows)


def total_of(table: Spending) -> Row:
    """The last row; it leads to all runs behind the table."""
    address = None if table.by == "run" else f"/costs?{_asked('run', table.period, table.only)}"
    return _row(table.total, 1.0, "All", address)


def only_words(only: SpendFilter) -> str:
    """What a table of some calls holds; empty for one of all calls."""
    named = {
        "model": model_name(only.model) if only.model else None,
        "kind": only.kind,
        "label": only.label,
        "owner": only.owner,
    }
    told = [f"{name} {one_line(value, NAME_CHARACTERS)}" for name, value in named.items() if value]
    told += [UNNAMED["label"]] if only.unlabelled else []
    told += [UNNAMED["kind"]] if only.unknown_kind else []
    told += [UNNAMED["owner"]] if only.unowned else []
    return ", ".join(told)


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
    sent = f"{saved.input_tokens:,} prompt tokens"
    if saved.share is None:
        return f"{plural(saved.runs, 'run')} that ended here sent {sent} and saved nothing."
    return (
        f"{plural(saved.runs, 'run')} that ended here sent {sent}. A loop that sends everything"
        f" again in each iteration would have sent {saved.naive_input_tokens:,}."
    )


async def _table(visit: Visit, by: str, since: str, until: str, only: SpendFilter) -> Spending:
    asked = {"by": by, "since": since, "until": until, **_given(only)}
    return await visit.api.get("/costs", Spending, asked)


def _row(line: SpendLine, share: float, name: str, address: str | None) -> Row:
    usage = line.usage
    return Row(
        name=name,
        address=address,
        calls=f"{line.calls:,}",
        sent=f"{usage.prompt_tokens - usage.cache_read_tokens:,}",
        cached=f"{usage.cache_read_tokens:,}",
        written=f"{usage.output_tokens:,}",
        cost=cost_words(line),
        time=duration(line.seconds),
        share=share,
    )


def _named(by: SpendKey, line: SpendLine) -> str:
    name = line.name
    if name is None:
        return UNNAMED.get(by, "unknown")
    if line.learned_from is not None:
        return f"learning from {line.learned_from}"
    return one_line(model_name(name) if by == "model" else name, NAME_CHARACTERS)


def _behind(table: Spending, line: SpendLine) -> str | None:
    """What a line is made of: its run, or the table of its runs, which add up to it."""
    only, period, name = table.only, table.period, line.name
    match table.by:
        case "run":
            # A learning run has no page: what it spent is told by the run that it learned from.
            return name and f"/runs/{quote(line.learned_from or name, safe='')}"
        case "day":
            day = date.fromisoformat(name or "")
            period = Period(since=day, until=day)
        case "model":
            only = only.model_copy(update={"model": name})
        case "kind":
            only = only.model_copy(update={"kind": name, "unknown_kind": name is None})
        case "label":
            only = only.model_copy(update={"label": name, "unlabelled": name is None})
        case "owner":
            only = only.model_copy(update={"owner": name, "unowned": name is None})
    return f"/costs?{_asked('run', period, only)}"


def _share(line: SpendLine, total: SpendLine) -> float:
    if total.known_cost_usd:
        return float(line.known_cost_usd / total.known_cost_usd)
    return line.calls / total.calls if total.calls else 0.0


def _groupings(table: Spending) -> Sequence[Shortcut]:
    return [
        Shortcut(f"By {by}", f"/costs?{_asked(by, table.period, table.only)}", by == table.by)
        for by in get_args(SpendKey)
    ]


def _periods(table: Spending, today: date) -> Sequence[Shortcut]:
    found: list[Shortcut] = []
    for days in PERIODS:
        period = Period(since=today - timedelta(days=days - 1), until=today)
        address = f"/costs?{_asked(table.by, period, table.only)}"
        found.append(Shortcut(f"Last {days} days", address, table.period == period))
    return found


def _asked(by: SpendKey, period: Period, only: SpendFilter = ALL_CALLS) -> str:
    days = {"since": period.since.isoformat(), "until": period.until.isoformat()}
    return urlencode({"by": by, **days, **_given(only)})


def _given(only: SpendFilter) -> dict[str, str]:
    """The filters that are set, as an address has them."""
    told = only.model_dump(exclude_defaults=True)
    return {name: "true" if value is True else str(value) for name, value in told.items()}
