"""Spend by phase, by model and by day."""

from collections.abc import Mapping

from rich.console import RenderableType

from perdure.domain.run.cost_report import CostLine, CostReport
from perdure.interfaces.cli.views.layout import DIM, WARN, line, pairs, stack, table
from perdure.interfaces.cli.views.status import spend_line
from perdure.interfaces.formatting import duration, model_name, money, plural

_COLUMNS = ("calls", "input", "cached", "written", "cost", "time")


def costs_view(report: CostReport) -> RenderableType:
    """The sums of a run, or of all that the store knows."""
    what = report.runs[0] if len(report.runs) == 1 else plural(len(report.runs), "run")
    parts = [
        _block("phase", report.by_phase),
        _block("model", {model_name(name): item for name, item in report.by_model.items()}),
        _block("day", report.by_day),
    ]
    total = table(("total", *_COLUMNS), [(what, *_cells(report.total))], right=_COLUMNS)
    beside = _learning(report.learning)
    return stack(total, *parts, _unconfirmed(report.unconfirmed), beside, _budget(report))


def _block(name: str, lines: Mapping[str, CostLine]) -> RenderableType | None:
    if not lines:
        return None
    rows = [(label, *_cells(item)) for label, item in lines.items()]
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
    return line((f"\nunconfirmed: {what}: they died with their worker, at their estimate", WARN))


def _budget(report: CostReport) -> RenderableType | None:
    if report.budget is None:
        return None
    held = report.budget.reserved_tokens
    reserved = f"{held:,} tokens, {money(report.budget.reserved_cost_usd)}" if held else None
    rows = [("budget", spend_line(report.budget)), ("reserved", reserved)]
    return stack(line(("", DIM)), pairs(rows))
