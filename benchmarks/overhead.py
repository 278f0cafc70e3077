"""B1: what a turn of the agent loop costs in time, against a workflow that does nothing else."""

from collections.abc import Callable, Sequence
from statistics import median

from benchmarks.pairing import Ratio, alternate, ratio
from benchmarks.sides import DELTA, PERDURE, SPREAD, Played, SideName
from benchmarks.site import Site
from perdure.domain.foundation.base import FrozenModel

SIDES = (PERDURE, DELTA, SPREAD)
CPU_TICK_S = 0.01


class Cost(FrozenModel):
    """The middle run of one side, in milliseconds a turn; the server noted the wall times.

    `turn` counts from the first question to the last, `run` from start to close.
    """

    side: SideName
    turn_ms: float
    run_ms: float
    cpu_ms: float
    activities: tuple[int, int, int]


class Against(FrozenModel):
    """The product's ratios to one baseline."""

    baseline: SideName
    turn: Ratio
    run: Ratio
    cpu: Ratio


class Overhead(FrozenModel):
    """The result of B1."""

    turns: int
    costs: tuple[Cost, ...]
    ratios: tuple[Against, ...]


async def measure_overhead(
    site: Site, *, turns: int, pairs: int, on_run: Callable[[str], None]
) -> Overhead:
    """Play the product and both forms of the delta loop in turn.

    The delta loop on three queues has no eager starts, as the product has none, whose models and
    tools may live on other hosts: the difference between the two is what that freedom costs.
    """
    played = await alternate(site, SIDES, turns=turns, pairs=pairs, name="B1", on_run=on_run)
    return Overhead(
        turns=turns,
        costs=tuple(_cost(runs, turns) for runs in played.values()),
        ratios=tuple(
            _against(side.name, played["perdure"], played[side.name]) for side in SIDES[1:]
        ),
    )


def _cost(runs: Sequence[Played], turns: int) -> Cost:
    return Cost(
        side=runs[0].side,
        turn_ms=1000 * median(map(_turns_s, runs)) / turns,
        run_ms=1000 * median(map(_run_s, runs)) / turns,
        cpu_ms=1000 * median(map(_cpu_s, runs)) / turns,
        activities=runs[0].steps,
    )


def turn_ratios(ours: Sequence[Played], theirs: Sequence[Played]) -> tuple[Ratio, Ratio]:
    """The ratios of a turn's time, and of the worker's CPU time."""
    return _ratio(ours, theirs, _turns_s), _ratio(ours, theirs, _cpu_s)


def _against(baseline: SideName, ours: Sequence[Played], theirs: Sequence[Played]) -> Against:
    return Against(
        baseline=baseline,
        turn=_ratio(ours, theirs, _turns_s),
        run=_ratio(ours, theirs, _run_s),
        cpu=_ratio(ours, theirs, _cpu_s),
    )


def _ratio(
    ours: Sequence[Played], theirs: Sequence[Played], figure: Callable[[Played], float]
) -> Ratio:
    return ratio([figure(run) for run in ours], [figure(run) for run in theirs])


def _turns_s(run: Played) -> float:
    return run.recorded.turns_s


def _run_s(run: Played) -> float:
    return run.recorded.seconds


def _cpu_s(run: Played) -> float:
    # Of a very short run the system may count no CPU time at all.
    return max(run.cpu_s, CPU_TICK_S)
