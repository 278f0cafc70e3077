"""Budgets and totals as the tests of the budget write them."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from perdure.domain.budget.accounting import Budget, BudgetLimits, Spend
from perdure.domain.llm.usage import AttemptTotals, Usage

UNLIMITED = {"tokens": None, "cost_usd": None, "active_time": None}


def budget(spent: Mapping[str, object] | None = None, /, **limits: Any) -> Budget:
    return Budget(
        limits=BudgetLimits.model_validate({**UNLIMITED, **limits}),
        spent=Spend.model_validate(spent or {}),
    )


def account(
    *, used: int = 0, out: int = 0, cost: str | None = "0", attempts: int = 1
) -> AttemptTotals:
    return AttemptTotals(
        attempts=attempts,
        usage=Usage(input_tokens=used, output_tokens=out),
        cost_usd=None if cost is None else Decimal(cost),
    )
