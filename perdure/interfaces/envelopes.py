"""What is left of a run's budget for further loops: its limits less what is spent or held.

An open loop holds its full limits; an ended one holds what it spent. A fifth of the run's limits is
kept for the run itself, so that its loops cannot use up everything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from perdure.domain.budget.accounting import BudgetLimits, Reservation
from perdure.domain.budget.journal import Journal
from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.run.resume import booked_of
from perdure.domain.run.status import StoredRun
from perdure.domain.specs import Spec

SHARE = Decimal("0.5")
OWN_PART = Decimal("0.2")
LEAST_USD = Decimal("0.0001")
LEAST_TOKENS = 1_000


@dataclass(frozen=True, slots=True)
class StartedLoop:
    """A loop that the run started, with its specification and the limits of now."""

    row: StoredRun
    spec: Spec


@dataclass(frozen=True, slots=True)
class Share:
    """The most that the next loop may use; None where the run has no limit."""

    cost_usd: Decimal | None
    tokens: int | None


async def held_by(journal: Journal, below: tuple[StartedLoop, ...]) -> dict[str, Reservation]:
    """What each loop holds of the budget of the run that started it."""
    return {one.row.id: await _held(journal, one) for one in below}


async def share_of(
    journal: Journal, *, caller: str, above: Spec, held: Mapping[str, Reservation]
) -> Share:
    """The limits of the next loop: half of what is left, so that more loops can follow.

    Args:
        journal: what runs spent.
        caller: the run that starts it.
        above: the caller's specification, with the limits that people set since its start.
        held: what each loop of the caller holds already.

    Raises:
        NotAllowed: nothing is left.
    """
    limits, own = above.budget, await _spent(journal, caller, above.budget)
    cost = sum((amounts.cost_usd for amounts in held.values()), Decimal(0))
    tokens = Decimal(sum(amounts.tokens for amounts in held.values()))
    usd = _part(limits, limits.limit("cost"), own.cost_usd, cost)
    counted = _part(limits, limits.limit("tokens"), Decimal(own.tokens), tokens)
    if usd is not None and usd < LEAST_USD:
        raise _nothing_left(f"{limits.cost_usd} USD", f"{own.cost_usd:.4f}", f"{cost:.4f}", held)
    if counted is not None and counted < LEAST_TOKENS:
        raise _nothing_left(f"{limits.tokens} tokens", str(own.tokens), str(tokens), held)
    return Share(
        cost_usd=None if usd is None else usd.quantize(LEAST_USD / 100),
        tokens=None if counted is None else int(counted),
    )


def _part(
    limits: BudgetLimits, limit: Decimal | None, own: Decimal, held: Decimal
) -> Decimal | None:
    """Half of what neither the run nor its loops need, without the reserve for the wrap-up."""
    if limit is None:
        return None
    # Through text: the float 0.1 is a little more than a tenth.
    usable = limit * (1 - Decimal(str(limits.wrap_up)))
    return (usable - max(own, limit * OWN_PART) - held) * SHARE


def _nothing_left(limit: str, own: str, held: str, below: Mapping[str, Reservation]) -> NotAllowed:
    return NotAllowed(
        f"Nothing is left for another loop: of {limit} this run spent {own} and keeps a fifth for "
        f"itself, and the {len(below)} loops that it started hold {held}.",
        cure="Wait until some of them ended, or stop them with loop_control.",
    )


async def _held(journal: Journal, one: StartedLoop) -> Reservation:
    limits = one.spec.budget
    if one.row.ended_at is not None:
        # Not its limits: what an ended loop has left is there for the next one.
        return await _spent(journal, one.row.id, limits)
    return Reservation(cost_usd=limits.cost_usd or Decimal(0), tokens=limits.tokens or 0)


async def _spent(journal: Journal, run: str, limits: BudgetLimits) -> Reservation:
    account = booked_of(await journal.tree(root=run, run=run)).account
    return Reservation(
        cost_usd=account.least_cost_usd,
        tokens=account.total_usage.counted_tokens(count_cache_reads=limits.count_cache_reads),
    )
