"""The spend of a run by phase, model, day and child run."""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Literal

from pydantic import JsonValue

from perdure.domain.budget.journal import AttemptRow
from perdure.domain.budget.spend_report import SpendCell, SpendLine
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.usage import AttemptTotals, Usage, add_cost
from perdure.domain.run.child_runs import slice_usage
from perdure.domain.run.result import SpendReport
from perdure.domain.run.state import LoopState, SpendSlice
from perdure.domain.run.status import BudgetStatus

# The split is part of the state, however many children a run has in its life.
CHILDREN_NAMED = 64
EARLIER = "earlier"


def charged(
    slices: Mapping[str, SpendSlice], name: str, account: AttemptTotals
) -> dict[str, SpendSlice]:
    """The slices with an account added under `name`."""
    held = slices.get(name, SpendSlice())
    added = SpendSlice(
        usage=held.usage + account.total_usage,
        cost_usd=add_cost(held.cost_usd, account.total_cost_usd),
        calls=held.calls + account.attempts,
    )
    return {**slices, name: added}


def charge_child(state: LoopState, child: str, spend: SpendReport) -> None:
    """Add what a child run used to the splits of its parent; many children share one line."""
    state.by_phase = _merged(state.by_phase, spend.by_phase)
    state.by_model = _merged(state.by_model, spend.by_model)
    used = SpendSlice(
        usage=spend.usage + spend.unconfirmed_usage,
        cost_usd=spend.cost_usd,
        calls=spend.model_calls,
    )
    named = _summed(state.by_child, child, used)
    while len(named) > CHILDREN_NAMED:
        oldest = next(name for name in named if name != EARLIER)
        # Taken out before the sum copies the rest: arguments come first.
        named = _summed(named, EARLIER, named.pop(oldest))
    state.by_child = named


def slices(
    split: Mapping[str, SpendSlice], *, count_cache_reads: bool
) -> dict[str, dict[str, JsonValue]]:
    """A split of spend as results show it; its tokens are counted as the budget counts them."""
    return {
        name: {
            "tokens": part.usage.counted_tokens(count_cache_reads=count_cache_reads),
            "input_tokens": part.usage.prompt_tokens,
            "output_tokens": part.usage.output_tokens,
            "cost_usd": money(part.cost_usd),
            "model_calls": part.calls,
        }
        for name, part in sorted(split.items())
    }


def money(value: Decimal | None) -> str | None:
    """An amount as text, exact and without trailing zeros; None stays unknown."""
    # `f` after `normalize`, which alone would write 100 as `1E+2`.
    return None if value is None else f"{value.normalize():f}"


def _merged(
    split: Mapping[str, SpendSlice], shown: Mapping[str, Mapping[str, JsonValue]]
) -> dict[str, SpendSlice]:
    merged = dict(split)
    for name, line in shown.items():
        cost = line.get("cost_usd")
        part = SpendSlice(
            usage=slice_usage(line),
            cost_usd=None if cost is None else Decimal(str(cost)),
            calls=int(str(line.get("model_calls", 0))),
        )
        merged = _summed(merged, name, part)
    return merged


def _summed(split: Mapping[str, SpendSlice], name: str, more: SpendSlice) -> dict[str, SpendSlice]:
    held = split.get(name, SpendSlice())
    added = SpendSlice(
        usage=held.usage + more.usage,
        cost_usd=add_cost(held.cost_usd, more.cost_usd),
        calls=held.calls + more.calls,
    )
    return {**split, name: added}


class CostLine(FrozenModel):
    """One sum; `cost_usd` is None as soon as one price in it is unknown."""

    attempts: int = 0
    usage: Usage = Usage()
    cost_usd: Decimal | None = Decimal(0)
    seconds: float = 0.0

    def plus(self, row: AttemptRow) -> "CostLine":
        """The sum with one attempt more."""
        return CostLine(
            attempts=self.attempts + int(row.sent),
            usage=self.usage + row.usage,
            cost_usd=add_cost(self.cost_usd, row.cost_usd),
            seconds=round(self.seconds + row.seconds, 3),
        )

    @property
    def is_nothing(self) -> bool:
        """Whether no call was made and nothing spent: what was never sent leaves such a line."""
        return not self.attempts and not self.cost_usd and self.usage == Usage()


class CostReport(FrozenModel):
    """Spend as the journal knows it; without `runs`, of all runs.

    `unconfirmed` is the part of `total` that nobody confirmed: attempts that died with their
    worker, at their estimate, and duplicates. `learning` is what was spent afterwards on learning
    from these runs, on accounts of its own: no part of `total`, None when there was no such call.
    `source` says where the budget comes from.
    """

    runs: tuple[str, ...]
    total: CostLine = CostLine()
    by_phase: dict[str, CostLine] = {}
    by_model: dict[str, CostLine] = {}
    by_day: dict[str, CostLine] = {}
    unconfirmed: CostLine = CostLine()
    learning: CostLine | None = None
    budget: BudgetStatus | None = None
    source: Literal["run", "store"] = "store"


def add_up(
    runs: Iterable[str],
    rows: Iterable[AttemptRow],
    *,
    learning: Iterable[AttemptRow] = (),
    budget: BudgetStatus | None = None,
) -> CostReport:
    """The report over all attempts of some runs; open attempts count with what is known of them.

    `learning` are the attempts of the runs that learned from them.
    """
    rows, beside = list(rows), list(learning)
    return CostReport(
        runs=tuple(runs),
        total=_sum(rows),
        by_phase=_grouped(rows, lambda row: row.phase),
        by_model=_grouped(rows, lambda row: row.model),
        by_day=_grouped(rows, lambda row: row.started_at.date().isoformat()),
        unconfirmed=_sum([row for row in rows if row.unconfirmed]),
        learning=_sum(beside) if beside else None,
        budget=budget,
    )


def report_of(runs: Iterable[str], cells: Iterable[SpendCell]) -> CostReport:
    """The report over all that a ledger knows."""
    cells = list(cells)
    own = [cell for cell in cells if not cell.learning]
    beside = [cell for cell in cells if cell.learning]
    return CostReport(
        runs=tuple(runs),
        total=_summed_cells(own),
        by_phase=_cells_by(own, lambda cell: cell.phase),
        by_model=_cells_by(own, lambda cell: cell.model),
        by_day=_cells_by(own, lambda cell: cell.day),
        unconfirmed=_summed_cells(cell for cell in own if cell.unconfirmed),
        learning=_summed_cells(beside) if beside else None,
    )


def _cells_by(cells: list[SpendCell], key: Callable[[SpendCell], str]) -> dict[str, CostLine]:
    names = sorted({key(cell) for cell in cells})
    return _told({name: _summed_cells(one for one in cells if key(one) == name) for name in names})


def _summed_cells(cells: Iterable[SpendCell]) -> CostLine:
    line = SpendLine()
    for cell in cells:
        line = line.plus(cell.line)
    return CostLine(
        attempts=line.calls, usage=line.usage, cost_usd=line.cost_usd, seconds=line.seconds
    )


def _grouped(rows: list[AttemptRow], key: Callable[[AttemptRow], str]) -> dict[str, CostLine]:
    lines: dict[str, CostLine] = {}
    for row in rows:
        lines[key(row)] = lines.get(key(row), CostLine()).plus(row)
    return _told(dict(sorted(lines.items())))


def _told(lines: Mapping[str, CostLine]) -> dict[str, CostLine]:
    """The lines that say something."""
    return {name: line for name, line in lines.items() if not line.is_nothing}


def _sum(rows: list[AttemptRow]) -> CostLine:
    line = CostLine()
    for row in rows:
        line = line.plus(row)
    return line
