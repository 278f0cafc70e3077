"""Paired differences between two arms, with bootstrap intervals.

Inputs are what is resampled. Repeats of an input tell more about that input but not about others,
so they are averaged first.
"""

import random
from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist, fmean, stdev

from perdure.domain.experiments.plan import Plan
from perdure.domain.experiments.trials import Trial
from perdure.domain.foundation.base import FrozenModel

CONFIDENCE = 0.95
RESAMPLES = 4_000
FEWEST = 5
"""With fewer inputs an interval says too little to act on."""

FEWEST_ALIKE = 6
"""So many equal differences have one sign by chance once in 32 times (5: once in 16 times)."""

MANY = 2_000
"""Above this many inputs the bootstrap agrees with the normal distribution but is far slower."""

SEED = 20_260


class Interval(FrozenModel):
    """A mean, and where the true mean lies with 95 % confidence; None where values do not say.

    Equal values have no spread to tell it from: both bounds are the mean.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    count: int = 0

    @property
    def differs(self) -> bool:
        """Whether the interval excludes 0; equal values are told from it by the sign test."""
        if self.low is None or self.high is None:
            return False
        if self.low == self.high and self.count < FEWEST_ALIKE:
            return False
        return self.low > 0 or self.high < 0

    @property
    def of_scores(self) -> "Interval":
        """The interval for a mean of scores, clipped to 0 and 1, which the bootstrap may exceed.

        Equal scores have the exact binomial one if all are 0 or all are 1, else none.
        """
        if self.low is None or self.low != self.high:
            return self._within(0.0)
        furthest = ((1 - CONFIDENCE) / 2) ** (1 / self.count)
        low, high = {1.0: (furthest, 1.0), 0.0: (0.0, 1 - furthest)}.get(self.mean, (None, None))
        return _rounded(self.mean, low, high, self.count)

    @property
    def of_differences(self) -> "Interval":
        """The same for a mean difference of scores, which lies between -1 and 1."""
        return self._within(-1.0)

    def _within(self, least: float) -> "Interval":
        if self.low is None or self.high is None:
            return self
        clipped = {"low": max(least, self.low), "high": min(1.0, self.high)}
        return self.model_copy(update=clipped)


def interval(values: Sequence[float]) -> Interval:
    """The mean with its interval: the studentized bootstrap, or Student's t where that is wider.

    The same values always give the same interval. The bootstrap follows skewed values, but it is
    too narrow for few values that are nearly all the same.
    """
    # Scores never have nine digits. Rounding removes floating-point noise, whose squares would
    # vanish.
    values = [round(value, 9) for value in values]
    count = len(values)
    mean = fmean(values) if values else 0.0
    if count < FEWEST:
        return _rounded(mean, None, None, count)
    error = stdev(values) / sqrt(count)
    # All values are equal: no resample has a spread, so there would be no quantile. What equal
    # values mean depends on what they are: see `of_scores` and `differs`.
    if error == 0:
        return _rounded(mean, mean, mean, count)
    if count > MANY:
        margin = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * error
        return _rounded(mean, mean - margin, mean + margin, count)
    low, high = _quantiles(values, mean)
    margin = _student(count - 1)
    # Crosswise, as in any studentized bootstrap: the upper quantile gives the lower bound.
    return _rounded(mean, mean - max(high, margin) * error, mean + max(-low, margin) * error, count)


def _student(freedom: int) -> float:
    """The quantile of Student's t distribution, by its expansion around the normal one.

    With 4 degrees of freedom it gives 2.77 instead of 2.78; with more it is closer.
    """
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, start=1))


def _quantiles(values: Sequence[float], mean: float) -> tuple[float, float]:
    """The lower and upper quantile of resampled means, each in units of its own standard error."""
    draw, count = random.Random(SEED), len(values)  # a fixed seed, so that draws repeat
    ratios: list[float] = []
    for _ in range(RESAMPLES):
        drawn = draw.choices(values, k=count)
        middle = sum(drawn) / count
        spread = sum((value - middle) ** 2 for value in drawn) / (count - 1)
        # A resample of one repeated value has no spread and tells nothing about the error. By its
        # values: the mean of repeated 0.1 misses 0.1 by noise, so its spread is not quite 0.
        if min(drawn) != max(drawn):
            ratios.append((middle - mean) / sqrt(spread / count))
    ratios.sort()
    tail = (1 - CONFIDENCE) / 2
    last = len(ratios) - 1
    return ratios[round(tail * last)], ratios[round((1 - tail) * last)]


def _rounded(mean: float, low: float | None, high: float | None, count: int) -> Interval:
    return Interval(
        mean=round(mean, 4),
        low=None if low is None else round(low, 4),
        high=None if high is None else round(high, 4),
        count=count,
    )


class Labelled(FrozenModel):
    """One output: whether the loop accepted it, and whether it is right."""

    accepted: bool
    right: bool


class Agreement(FrozenModel):
    """Shares over all outputs with a label.

    `false_accepts` is the share of wrong outputs that were accepted, `false_rejects` of right ones
    that were not; None where there were none of the kind.
    """

    outputs: int
    agreement: float
    false_accepts: float | None
    false_rejects: float | None


def labelled(plan: Plan, trials: Sequence[Trial]) -> list[Labelled]:
    """The outputs for which both verdicts are known."""
    # Only labels say what is right; another judge's score is one more opinion.
    if plan.scoring.by != "labels":
        return []
    return [
        Labelled(accepted=one.met, right=one.held_out >= plan.scoring.passes)
        for trial in trials
        if trial.counts
        for one in trial.tries
        if one.held_out is not None and one.score is not None and not one.failed
    ]


def agreement(marks: Sequence[Labelled]) -> Agreement | None:
    """The shares; None without outputs."""
    if not marks:
        return None
    wrong = [one.accepted for one in marks if not one.right]
    right = [not one.accepted for one in marks if one.right]
    return Agreement(
        outputs=len(marks),
        agreement=round(sum(one.accepted == one.right for one in marks) / len(marks), 4),
        false_accepts=round(sum(wrong) / len(wrong), 4) if wrong else None,
        false_rejects=round(sum(right) / len(right), 4) if right else None,
    )
