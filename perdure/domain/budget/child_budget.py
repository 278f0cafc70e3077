"""The share of a run's budget that a child run gets."""

from decimal import ROUND_DOWN, Decimal

from perdure.domain.budget.envelope import (
    Budget,
    BudgetLimits,
    Dimension,
    LimitReached,
    Reservation,
    exhausted,
    reserve,
)

CHILD_FRACTION = 0.3
CHILD_FRACTION_RANGE = (0.05, 0.95)
SMALLEST_MONEY = Decimal("0.000001")
_SPLIT: tuple[Dimension, ...] = (
    "tokens",
    "output_tokens",
    "model_calls",
    "tool_calls",
    "iterations",
    "workers",
)


def allocate_child(
    budget: Budget, key: str, *, fraction: float | None = None, siblings: int = 1
) -> tuple[Budget, BudgetLimits] | LimitReached:
    """Reserve a share of what remains for a child run, taken off the parent at once.

    The fraction is clamped to 0.05-0.95 (default `min(0.3, 0.8 / siblings)`); shares round down,
    but to no less than one unit, because a limit of zero would mean none; times are shared, not
    split. A parent with an exhausted dimension refuses.
    """
    refused = exhausted(budget)
    if refused is not None:
        return refused
    low, high = CHILD_FRACTION_RANGE
    wanted = min(CHILD_FRACTION, 0.8 / max(1, siblings)) if fraction is None else fraction
    share = Decimal(str(min(high, max(low, wanted))))
    counted = {name: _share(budget, name, share) for name in _SPLIT}
    money = _money(budget, share)
    held = Reservation(
        cost_usd=money or Decimal(0), **{name: part or 0 for name, part in counted.items()}
    )
    limits = budget.limits.model_copy(
        update={**counted, "cost_usd": money, "depth": max(0, budget.limits.depth - 1)}
    )
    return reserve(budget, key, held), limits


def _share(budget: Budget, dimension: Dimension, share: Decimal) -> int | None:
    left = budget.remaining(dimension)
    return None if left is None else max(1, int(left * share))


def _money(budget: Budget, share: Decimal) -> Decimal | None:
    left = budget.remaining("cost")
    if left is None:
        return None
    return max(min(left, SMALLEST_MONEY), (left * share).quantize(SMALLEST_MONEY, ROUND_DOWN))
