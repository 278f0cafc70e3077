"""What a turn costs beside the peers: time, worker CPU, events and bytes, and how each grows."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import median

from benchmarks.histories import mean_events, mean_size, rise
from benchmarks.overhead import turn_ratios
from benchmarks.pairing import Ratio, alternate
from benchmarks.peer import Peer
from benchmarks.sides import DELTA, FULL, PERDURE, Played, SideName, peer_side
from benchmarks.site import Site
from perdure.domain.foundation.base import FrozenModel

MS = 1_000


class PeerCost(FrozenModel):
    """One side: medians over its runs, a turn; a slope is what each turn adds to the one before.

    `versions` is empty where the side lies in this repository. `wall` and `cpu` are ratios to the
    hand-written delta loop of the same round.
    """

    side: SideName
    versions: str
    turn_ms: float
    turn_ms_slope: float
    cpu_ms: float
    cpu_ms_slope: float
    events: float
    events_slope: float
    size: float
    size_slope: float
    wall: Ratio
    cpu: Ratio


class BesidePeers(FrozenModel):
    """All sides, after so many turns."""

    turns: int
    costs: tuple[PeerCost, ...]


async def measure_beside_peers(
    site: Site, *, peers: Sequence[Peer], turns: int, pairs: int, on_run: Callable[[str], None]
) -> BesidePeers:
    """Play the product, the hand-written loops and all peers in turn.

    Args:
        site: where the workers of the peers are served.
        peers: those that were built.
        turns: of each run; not too many, for a history that grows by its square ends at 50 MB.
        pairs: rounds after the warm-up.
        on_run: told before each run.
    """
    sides = (PERDURE, DELTA, FULL, *map(peer_side, peers))
    versions = {peer.title: peer.versions() for peer in peers}
    played = await alternate(site, sides, turns=turns, pairs=pairs, name="P2", on_run=on_run)
    floor = played[DELTA.name]
    return BesidePeers(
        turns=turns,
        costs=tuple(_cost(runs, floor, versions.get(name, "")) for name, runs in played.items()),
    )


def _cost(runs: Sequence[Played], floor: Sequence[Played], versions: str) -> PeerCost:
    turns = [run.recorded.turns for run in runs]
    wall, cpu = turn_ratios(runs, floor)
    return PeerCost(
        side=runs[0].side,
        versions=versions,
        turn_ms=MS * median(run.recorded.turns_s / len(run.recorded.turns) for run in runs),
        turn_ms_slope=MS * _typical_rise([turn.seconds for turn in one] for one in turns),
        cpu_ms=MS * median(run.cpu_s / len(run.recorded.turns) for run in runs),
        cpu_ms_slope=MS * _typical_rise(_steps(run.cpu_at) for run in runs),
        events=median(map(mean_events, turns)),
        events_slope=_typical_rise([turn.events for turn in one] for one in turns),
        size=median(map(mean_size, turns)),
        size_slope=_typical_rise([turn.size for turn in one] for one in turns),
        wall=wall,
        cpu=cpu,
    )


def _steps(values: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(values)]


def _typical_rise(runs: Iterable[Sequence[float]]) -> float:
    return median(rise(run) for run in runs)
