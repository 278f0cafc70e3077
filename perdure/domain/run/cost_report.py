"""What a run spent, added up from the rows of the journal: by phase, by model, by day."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Literal

from perdure.domain.budget.journal import AttemptRow
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.usage import Usage, add_cost
from perdure.domain.run.status import BudgetStatus


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


class CostReport(FrozenModel):
    """Spend as the journal knows it.

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


def _grouped(rows: list[AttemptRow], key: Callable[[AttemptRow], str]) -> dict[str, CostLine]:
    lines: dict[str, CostLine] = {}
    for row in rows:
        lines[key(row)] = lines.get(key(row), CostLine()).plus(row)
    return dict(sorted(lines.items()))


def _sum(rows: list[AttemptRow]) -> CostLine:
    line = CostLine()
    for row in rows:
        line = line.plus(row)
    return line
