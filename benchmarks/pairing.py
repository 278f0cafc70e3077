"""Playing sides in turn, and comparing them pair by pair.

Times of one machine move more between two minutes than between two loops, so only what ran next to
each other is compared, as a ratio, and no number is kept from one measurement to the next.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

from benchmarks.baselines import Order
from benchmarks.sides import Played, Side, SideName
from benchmarks.site import Site
from perdure.domain.foundation.base import FrozenModel


class Disagreement(Exception):
    """The sides did not do the same work, so their times say nothing."""


class Ratio(FrozenModel):
    """Paired ratios: the middle one, and how far they lie apart."""

    median: float
    least: float
    most: float
    pairs: int


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """The ratios of values that were measured next to each other."""
    found = [left / right for left, right in zip(ours, theirs, strict=True)]
    return Ratio(median=median(found), least=min(found), most=max(found), pairs=len(found))


async def alternate(
    site: Site,
    sides: Sequence[Side],
    *,
    turns: int,
    pairs: int,
    name: str,
    on_run: Callable[[str], None],
) -> Mapping[SideName, list[Played]]:
    """Play the sides in turn, the product first: once to warm up, then `pairs` times.

    The first run of the product tells how many steps it takes beside the turns; the baselines take
    as many, so that all sides have the same number of activities.

    Raises:
        Disagreement: two sides differ in their activities or their ledgers.
    """
    played: dict[SideName, list[Played]] = {side.name: [] for side in sides}
    beside = 0
    for round_number in range(pairs + 1):
        found: list[Played] = []
        for side in sides:
            what = "warm-up" if round_number == 0 else f"{round_number} of {pairs}"
            on_run(f"{name}: {side.name}, {what}")
            order = Order(turns=turns, beside=beside)
            run = f"{name}-{side.name.replace(' ', '-')}-{round_number}".lower()
            found.append(await side.play(site, run, order))
            if round_number == 0 and len(found) == 1:
                beside = found[0].beside
        require_same_work(found)
        if round_number > 0:
            for one in found:
                played[one.side].append(one)
    return played


def require_same_work(played: Sequence[Played]) -> None:
    """Fail unless all runs had the same activities and made the same calls in the same order.

    Raises:
        Disagreement: naming the two sides and what differs.
    """
    first = played[0]
    for other in played[1:]:
        for what, left, right in _compared(first, other):
            if left != right:
                raise Disagreement(
                    f"{what} differ: {first.side} ({first.run}) has {left}, "
                    f"{other.side} ({other.run}) has {right}. Such a measurement is worth nothing. "
                    "Measure again; with --keep DIR the logs of the workers stay."
                )


def _compared(first: Played, other: Played) -> Iterator[tuple[str, object, object]]:
    yield "Activities (model, tool, beside)", first.steps, other.steps
    yield "Ledger lengths", len(first.ledger), len(other.ledger)
    for left, right in zip(first.ledger, other.ledger, strict=False):
        yield "Ledger lines", left, right
