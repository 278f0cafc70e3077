"""What a run may still give to loops that it starts: its own envelope, less what is spent and held.

A loop that is open holds its whole limit; one that ended holds what it spent.
"""

from dataclasses import dataclass
from decimal import Decimal

from perdure.domain.errors import NotAllowed
from perdure.domain.journal import Journal
from perdure.domain.ports import StoredRun
from perdure.domain.resuming import booked
from perdure.domain.run import Spec

SHARE = Decimal("0.5")
LEAST_USD = Decimal("0.0001")


@dataclass(frozen=True, slots=True)
class Below:
    """A loop that the run started, and what it was started with."""

    row: StoredRun
    spec: Spec


async def share_of(
    journal: Journal, *, caller: str, above: Spec, below: tuple[Below, ...]
) -> Decimal | None:
    """How much money the next loop of a run may spend at most; None where the run has no limit.

    It is half of what is left, so that the run itself, and further loops, can go on.

    Raises:
        NotAllowed: nothing is left.
    """
    limit = above.budget.cost_usd
    if not limit:
        return None
    held = [await _held(journal, one) for one in below]
    own = await _spent(journal, caller)
    left = limit - own - sum(held, Decimal(0))
    if left < LEAST_USD:
        raise NotAllowed(
            f"Nothing is left for another loop: of {limit} USD this run spent {own:.4f}, and the "
            f"{len(held)} loops that it started hold {sum(held, Decimal(0)):.4f}.",
            cure="Wait until some of them ended, or stop them with loop_control.",
        )
    return (left * SHARE).quantize(LEAST_USD / 100)


async def _held(journal: Journal, one: Below) -> Decimal:
    limit = one.spec.budget.cost_usd or Decimal(0)
    return await _spent(journal, one.row.id) if one.row.ended_at is not None else limit


async def _spent(journal: Journal, run: str) -> Decimal:
    return booked(await journal.tree(root=run, run=run)).account.total_cost_usd or Decimal(0)
