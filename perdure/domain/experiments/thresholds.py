"""What other settings of a loop would have cost and brought, replayed on recorded scores.

An estimate: a loop that was stopped by a setting shows nothing of what would have come after, so
only settings that stop earlier than the recorded run did can be replayed.
"""

from collections.abc import Sequence
from decimal import Decimal

from perdure.domain.evaluation.trajectory import Trajectory
from perdure.domain.experiments.trials import Step, Trial, total_usd
from perdure.domain.foundation.base import FrozenModel

QUALITIES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)
IMPROVEMENTS = (0.0, 0.01, 0.02, 0.05, 0.1)
AS_GOOD = 0.01
"""A mean score so close to the best one counts as no worse."""


class Setting(FrozenModel):
    """When a loop stops: after so many iterations, at this score, or when it improves too little.

    `improvement_threshold` of 0 never stops it.
    """

    max_iterations: int
    quality_threshold: float
    improvement_threshold: float = 0.0


class Estimate(FrozenModel):
    """What a setting would have brought: means over the recorded runs."""

    setting: Setting
    score: float
    tokens: float
    cost_usd: Decimal | None
    iterations: float


class ThresholdStudy(FrozenModel):
    """Estimates for one arm, the cheapest first, and the one to recommend.

    `longest` is what the longest recorded run did; no setting beyond it can be replayed.
    """

    arm: str
    runs: int
    longest: int
    estimates: tuple[Estimate, ...]
    recommended: Estimate


def trajectories(steps: Sequence[Step]) -> tuple[Trajectory, ...]:
    """What the loop knew after each iteration of a run."""
    after: list[Trajectory] = []
    for step in steps:
        after.append((after[-1] if after else Trajectory()).after(step.score))
    return tuple(after)


def stopped_after(run: Sequence[Trajectory], setting: Setting) -> int:
    """After how many iterations a run that went so ends under a setting, at least 1.

    By the rules of the loop: a gain is measured from score to score, and an iteration without a
    score ends nothing.
    """
    for done, known in enumerate(run[: setting.max_iterations], start=1):
        if known.reached(setting.quality_threshold):
            return done
        least = setting.improvement_threshold
        if least and known.diminishing(least):
            return done
    return min(len(run), setting.max_iterations)


def study(arm: str, trials: Sequence[Trial]) -> ThresholdStudy | None:
    """Estimates for one arm; None where no run of it went beyond one scored iteration."""
    runs = [
        one.steps
        for trial in trials
        if trial.arm == arm and trial.counts
        for one in trial.tries
        if any(step.score is not None for step in one.steps)
    ]
    longest = max((len(steps) for steps in runs), default=0)
    if longest < 2:  # one iteration leaves nothing to stop earlier
        return None
    settings = [
        Setting(max_iterations=most, quality_threshold=quality, improvement_threshold=least)
        for most in range(1, longest + 1)
        for quality in QUALITIES
        for least in IMPROVEMENTS
    ]
    # Run by run: the trajectories of all runs at once would need much room.
    ends = [[stopped_after(went, one) for one in settings] for went in map(trajectories, runs)]
    found = [
        _estimate([steps[:end] for steps, end in zip(runs, after, strict=True)], setting)
        for setting, after in zip(settings, zip(*ends, strict=True), strict=True)
    ]
    # The cheapest first, of equal ones the best: what is recommended and the frontier go by it.
    ordered = _without_repeats(sorted(found, key=lambda one: (one.tokens, -one.score)))
    aim = max(one.score for one in ordered) - AS_GOOD
    recommended = next(one for one in ordered if one.score >= aim)
    return ThresholdStudy(
        arm=arm,
        runs=len(runs),
        longest=longest,
        estimates=_frontier(ordered),
        recommended=recommended,
    )


def _estimate(kept: Sequence[Sequence[Step]], setting: Setting) -> Estimate:
    """The means over what a setting keeps of the runs."""
    count = len(kept)
    cost = total_usd([step.cost_usd for steps in kept for step in steps])
    return Estimate(
        setting=setting,
        score=round(sum(max(step.score or 0.0 for step in steps) for steps in kept) / count, 4),
        tokens=round(sum(step.tokens for steps in kept for step in steps) / count, 1),
        cost_usd=None if cost is None else round(cost / count, 6),
        iterations=round(sum(len(steps) for steps in kept) / count, 2),
    )


def _without_repeats(estimates: Sequence[Estimate]) -> list[Estimate]:
    """One setting, the least demanding, of those that would have done the same."""
    seen: dict[tuple[float, float], Estimate] = {}
    for one in estimates:
        known = seen.get((one.tokens, one.score))
        if known is None or _plainness(one.setting) < _plainness(known.setting):
            seen[one.tokens, one.score] = one
    return list(seen.values())


def _plainness(setting: Setting) -> tuple[float, int, float]:
    return (setting.improvement_threshold, -setting.max_iterations, -setting.quality_threshold)


def _frontier(ordered: Sequence[Estimate]) -> tuple[Estimate, ...]:
    """The settings whose score no cheaper setting reaches."""
    kept: list[Estimate] = []
    for one in ordered:
        if not kept or one.score > kept[-1].score:
            kept.append(one)
    return tuple(kept)
