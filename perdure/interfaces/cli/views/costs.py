"""Spend by phase, by model and by day."""

from collections.abc import Iterable

from rich.console import RenderableType

from perdure.domain.budget.spend_report import InputSavings, SpendLine
from perdure.domain.run.cost_report import CostLine, CostReport
from perdure.interfaces.cli.views.layout import DIM, WARN, line, pairs, stack, table
from perdure.interfaces.cli.views.status import spend_line
from perdure.interfaces.formatting import duration, model_name, money, one_line, plural
from perdure.interfaces.spending import UNNAMED, Spending, cost_words

ID = 200
_COLUMNS = ("calls", "input", "cached", "written", "cost", "time")


def costs_view(report: CostReport) -> RenderableType:
    """The totals of a run, or of all runs in the store."""
    what = report.runs[0] if report.runs else "all runs"
    parts = [
        _block("phase", report.by_phase.items()),
        # Not a mapping: two models may have one short name, and each keeps its line.
        _block("model", [(model_name(name), item) for name, item in report.by_model.items()]),
        _block("day", report.by_day.items()),
    ]
    total = table(("total", *_COLUMNS), [(what, *_cells(report.total))], right=_COLUMNS)
    beside = _learning(report.learning)
    return stack(total, *parts, _unconfirmed(report.unconfirmed), beside, _budget(report))


def spending_view(found: Spending) -> RenderableType:
    """What all runs spent in a period, and the prompt tokens that they did not have to send."""
    period = f"{found.period.since} to {found.period.until}"
    if not found.lines:
        return line(f"No model was called from {period}.")
    lines = found.lines if found.others is None else (*found.lines, found.others)
    rows = [(_name(found, item), *_spent(item)) for item in lines]
    return stack(
        table((period, *_COLUMNS), [("all runs", *_spent(found.total))], right=_COLUMNS),
        stack("", table((found.by, *_COLUMNS), rows, right=_COLUMNS)),
        _saved(found.savings),
    )


def _name(found: Spending, item: SpendLine) -> str:
    # By identity: a run or a label may have any name, also an empty one.
    if item is found.others:
        return "all others"
    name = item.name or UNNAMED.get(found.by, "deleted runs")
    # A run's id is for copying: it is never cut.
    return one_line(
        model_name(name) if found.by == "model" else name, ID if found.by == "run" else 60
    )


def _spent(item: SpendLine) -> tuple[str, ...]:
    usage = item.usage
    return (
        str(item.calls),
        f"{usage.prompt_tokens - usage.cache_read_tokens:,}",
        f"{usage.cache_read_tokens:,}",
        f"{usage.output_tokens:,}",
        cost_words(item),
        duration(item.seconds),
    )


def _saved(saved: InputSavings) -> RenderableType | None:
    if saved.share is None:
        return None
    runs = plural(saved.runs, "run")
    told = f"\nsaved: {saved.share * 100:.0f} % of the prompt tokens of {runs} that ended then"
    return line(f"{told}, against a loop that sends everything again")


def _block(name: str, lines: Iterable[tuple[str, CostLine]]) -> RenderableType | None:
    rows = [(label, *_cells(item)) for label, item in lines]
    if not rows:
        return None
    return stack("", table((name, *_COLUMNS), rows, right=_COLUMNS))


def _cells(item: CostLine) -> tuple[str, ...]:
    usage = item.usage
    return (
        str(item.attempts),
        f"{usage.prompt_tokens - usage.cache_read_tokens:,}",
        f"{usage.cache_read_tokens:,}",
        f"{usage.output_tokens:,}",
        money(item.cost_usd),
        duration(item.seconds),
    )


def _learning(item: CostLine | None) -> RenderableType | None:
    if item is None:
        return None
    rows = [("learning", *_cells(item))]
    return stack("", table(("beside the total", *_COLUMNS), rows, right=_COLUMNS))


def _unconfirmed(item: CostLine) -> RenderableType | None:
    if not item.attempts:
        return None
    what = f"{plural(item.attempts, 'attempt')}, {money(item.cost_usd)}"
    return line((f"\nunconfirmed: {what}: an estimate, for nobody told what they used", WARN))


def _budget(report: CostReport) -> RenderableType | None:
    if report.budget is None:
        return None
    held = report.budget.reserved_tokens
    reserved = f"{held:,} tokens, {money(report.budget.reserved_cost_usd)}" if held else None
    rows = [("budget", spend_line(report.budget)), ("reserved", reserved)]
    return stack(line(("", DIM)), pairs(rows))
