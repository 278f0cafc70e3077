"""Whether a start fits into the month of its schedule, and with what budget.

A start gets what it asks for, or what is left of the month. Open runs hold what they may still
spend, so that runs side by side cannot spend the same money twice. Where nothing is left, the start
is refused in words.
"""

from decimal import Decimal
from typing import Literal

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.schedules.plan import MonthlyBudget


class MonthlySpend(FrozenModel):
    """What a schedule's runs have spent this month, and what the open ones may still spend.

    `unpriced` says that the cost of some call is unknown, so that the sum is too low.
    """

    cost_usd: Decimal = Decimal(0)
    tokens: int = 0
    unpriced: bool = False
    held_usd: Decimal = Decimal(0)
    held_tokens: int = 0
    holding: int = 0


class Admitted(FrozenModel):
    """The limits that a run gets; `lowered` says that the month left less than it asked for."""

    cost_usd: Decimal | None
    tokens: int | None
    lowered: bool = False


class TurnedAway(FrozenModel):
    """Why a start is refused, for a person, and which limit of the month does it."""

    unit: Literal["USD", "tokens"]
    why: str


def admission(
    month: MonthlyBudget, spend: MonthlySpend, asked: BudgetLimits
) -> Admitted | TurnedAway:
    """What a run may spend, or why it may not begin.

    Args:
        month: the budget of the schedule.
        spend: of this month so far, without the run itself.
        asked: the budget of the task; zero or None is unlimited.
    """
    cost = _left(month.cost_usd, spend.cost_usd, spend.held_usd)
    tokens = _left(month.tokens, spend.tokens, spend.held_tokens)
    # Refused also at exactly nothing: as a budget, zero would mean unlimited.
    if cost is not None and cost <= 0:
        return _turned_away("USD", month.cost_usd, spend.cost_usd, spend.held_usd, spend)
    if tokens is not None and tokens <= 0:
        return _turned_away("tokens", month.tokens, spend.tokens, spend.held_tokens, spend)
    wanted_usd, wanted_tokens = asked.cost_usd or None, asked.tokens or None
    cost_usd = _smaller(cost, wanted_usd)
    whole = None if tokens is None else int(tokens)
    limit = wanted_tokens if whole is None else min(whole, wanted_tokens or whole)
    return Admitted(
        cost_usd=cost_usd, tokens=limit, lowered=cost_usd != wanted_usd or limit != wanted_tokens
    )


def _left(limit: Decimal | int | None, spent: Decimal | int, held: Decimal | int) -> Decimal | None:
    return Decimal(limit) - spent - held if limit else None


def _smaller(left: Decimal | None, wanted: Decimal | None) -> Decimal | None:
    if left is None or wanted is None:
        return wanted if left is None else left
    return min(left, wanted)


def _turned_away(
    unit: Literal["USD", "tokens"],
    limit: Decimal | int | None,
    spent: Decimal | int,
    held: Decimal | int,
    spend: MonthlySpend,
) -> TurnedAway:
    told = f"{_plain(spent)} of {_plain(limit)} {unit} of this month are spent"
    if held:
        runs = "1 open run" if spend.holding == 1 else f"{spend.holding} open runs"
        told = f"{told}, and {runs} may still spend {_plain(held)}"
    return TurnedAway(unit=unit, why=told)


def _plain(value: Decimal | int | None) -> str:
    """A figure without an exponent."""
    return f"{value:f}" if isinstance(value, Decimal) else f"{value}"
