"""B2: the history that a turn adds, early and late in a long run, against hand-written loops."""

from collections.abc import Callable

from benchmarks.baselines import Order
from benchmarks.histories import early, late, mean_events, mean_size, sizes, slope
from benchmarks.pairing import require_same_work
from benchmarks.sides import DELTA, FULL, PERDURE, Played, SideName
from benchmarks.site import Site
from perdure.domain.foundation.base import FrozenModel


class Growth(FrozenModel):
    """The history of one side; `whole` figures are means over all turns, rolls included."""

    side: SideName
    early_bytes: float
    late_bytes: float
    whole_bytes: float
    early_events: float
    late_events: float
    whole_events: float
    slope_bytes: float
    executions: int
    sizes: tuple[int, ...]

    @property
    def late_to_early(self) -> float:
        """Bytes of a late turn over bytes of an early one; 1 is the goal."""
        return self.late_bytes / self.early_bytes


class Histories(FrozenModel):
    """The result of B2."""

    turns: int
    growths: tuple[Growth, ...]

    def of(self, side: SideName) -> Growth:
        """One side's history."""
        return next(growth for growth in self.growths if growth.side == side)

    @property
    def bytes_to_delta(self) -> float:
        """Our bytes a turn over the delta loop's."""
        return self.of("perdure").whole_bytes / self.of("delta").whole_bytes

    @property
    def events_to_delta(self) -> float:
        """Our events a turn over the delta loop's."""
        return self.of("perdure").whole_events / self.of("delta").whole_events


async def measure_growth(site: Site, *, turns: int, on_run: Callable[[str], None]) -> Histories:
    """Play one long run of each side; counts are exact, so one is enough."""
    played: list[Played] = []
    for side in (PERDURE, DELTA, FULL):
        on_run(f"B2: {side.name}, {turns} turns")
        beside = played[0].beside if played else 0
        played.append(await side.play(site, f"b2-{side.name}", Order(turns=turns, beside=beside)))
    require_same_work(played)
    return Histories(turns=turns, growths=tuple(_growth(one) for one in played))


def _growth(played: Played) -> Growth:
    turns = played.recorded.turns
    return Growth(
        side=played.side,
        early_bytes=mean_size(early(turns)),
        late_bytes=mean_size(late(turns)),
        whole_bytes=mean_size(turns),
        early_events=mean_events(early(turns)),
        late_events=mean_events(late(turns)),
        whole_events=mean_events(turns),
        slope_bytes=slope(turns),
        executions=played.recorded.executions,
        sizes=tuple(sizes(turns)),
    )
