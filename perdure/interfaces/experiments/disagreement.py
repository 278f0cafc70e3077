"""Disagreement between a loop's own score and the held-out score: in level, order or winner.

Only outputs with both scores count here; a run that failed has no output.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import sqrt
from statistics import fmean, pstdev

from perdure.domain.experiments.plan import Plan
from perdure.domain.experiments.trials import Trial
from perdure.domain.foundation.base import FrozenModel
from perdure.interfaces.experiments.statistics import FEWEST, interval

DISAGREES = 0.1
"""A difference of mean scores above this counts; scores that differ by less are alike."""

ORDERED = 8
"""With fewer inputs, a reversed order may be chance."""

UNRELATED = 20
"""With fewer inputs, unrelated orders may be chance."""

TOLD = 1.96
"""A rank correlation of at least so many standard errors is not chance, with 95 % confidence."""

TELLING = 3.0
"""If ties keep even equal orders below so many standard errors, no order can be told."""


class Marks(FrozenModel):
    """Both scores of an arm on one input, each the mean over its repeats."""

    own: float
    held_out: float


def marks(plan: Plan, trials: Sequence[Trial]) -> dict[str, dict[int, Marks]]:
    """The scores of each arm by input; empty without held-out scores."""
    if not plan.scoring.held_out:
        return {}
    found: dict[str, dict[int, list[Marks]]] = {arm.name: {} for arm in plan.arms}
    for trial in trials:
        one = trial.chosen if trial.counts else None
        if one is None or one.failed or one.score is None or one.held_out is None:
            continue
        both = Marks(own=one.score, held_out=one.held_out)
        found[trial.arm].setdefault(trial.entry, []).append(both)
    return {
        arm: {entry: _mean(several) for entry, several in by_entry.items()}
        for arm, by_entry in found.items()
    }


def arm_warnings(arm: str, found: Mapping[int, Marks]) -> list[str]:
    """Warnings about an arm's own score, to show before any figures."""
    pairs = [found[entry] for entry in sorted(found)]
    return [told for told in (_level(arm, pairs), _order(arm, pairs)) if told]


def winner_warning(
    better: str, worse: str, of_better: Mapping[int, Marks], of_worse: Mapping[int, Marks]
) -> str:
    """The warning if the held-out winner of two arms loses by their own scores; else empty."""
    # In a fixed order, as the bootstrap draws by place: the same trials give the same words.
    shared = sorted(of_better.keys() & of_worse.keys())
    own = [of_worse[entry].own - of_better[entry].own for entry in shared]
    held = [of_better[entry].held_out - of_worse[entry].held_out for entry in shared]
    # The bootstrap is expensive, so it comes last.
    if len(shared) < FEWEST or fmean(own) <= 0 or fmean(held) <= 0 or not interval(own).differs:
        return ""
    return (
        f"By their own scores {worse} beats {better} by {fmean(own):.2f}, and by the held-out "
        f"score {better} beats {worse} by {fmean(held):.2f} on the same {len(shared)} inputs: "
        "their own scores choose the wrong arm."
    )


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation, with mean ranks for ties; None if one side is constant."""
    ranks, others = _ranks(first), _ranks(second)
    spread = pstdev(ranks) * pstdev(others) if len(ranks) > 1 else 0.0
    if spread == 0:
        return None
    middle = (len(ranks) + 1) / 2  # of both sides, even with ties
    products = ((one - middle) * (other - middle) for one, other in zip(ranks, others, strict=True))
    return max(-1.0, min(1.0, fmean(products) / spread))


def _level(arm: str, pairs: Sequence[Marks]) -> str:
    if not pairs:
        return ""
    own, held = fmean(one.own for one in pairs), fmean(one.held_out for one in pairs)
    words = f"{arm} scores itself {own:.2f}, and the held-out score is {held:.2f}: "
    if own - held > DISAGREES:
        return words + "it meets its own checks better than the goal."
    if held - own > DISAGREES and len(pairs) >= FEWEST:
        return words + "its own checks refuse what reaches the goal."
    return ""


def _order(arm: str, pairs: Sequence[Marks]) -> str:
    own, held = [one.own for one in pairs], [one.held_out for one in pairs]
    count = len(pairs)
    if count < ORDERED or _alike(own) or _alike(held):
        return ""
    found = rank_correlation(own, held)
    if found is None:
        return ""
    # The standard error over all permutations of these values, with or without ties.
    error = 1 / sqrt(count - 1)
    figures = f"rank correlation {found:.2f} over {count} inputs"
    if found <= -TOLD * error:
        return (
            f"The higher {arm} scores itself on an input, the lower is the held-out score "
            f"({figures}): its own score points away from the goal."
        )
    best = rank_correlation(sorted(own), sorted(held)) or 0.0
    if count >= UNRELATED and found < TOLD * error and best >= TELLING * error:
        return (
            f"Where {arm} scores itself higher, the held-out score is not higher as far as can be "
            f"told ({figures}): its own score does not tell good outputs from bad ones."
        )
    return ""


def _alike(scores: Sequence[float]) -> bool:
    # Rounded, as 0.6 - 0.5 is less than 0.1 in floating point; scores never have nine digits.
    return round(max(scores) - min(scores), 9) < DISAGREES


def _ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value from 1; equal values share the mean of their ranks."""
    values = [round(value, 9) for value in values]
    ranks = [0.0] * len(values)
    before = 0
    ordered = sorted(range(len(values)), key=values.__getitem__)
    for _, group in groupby(ordered, key=values.__getitem__):
        places = list(group)
        for place in places:
            ranks[place] = before + (len(places) + 1) / 2
        before += len(places)
    return ranks


def _mean(several: Sequence[Marks]) -> Marks:
    return Marks(
        own=fmean(one.own for one in several), held_out=fmean(one.held_out for one in several)
    )
