"""The loop against best-of-n with the same number of calls, from runs that were really made."""

from collections.abc import Sequence

from perdure.domain.base import Frozen
from perdure.domain.result import RunResult


class Arm(Frozen):
    """One way of working over all seeds; `scores[i]` is the mean best score after iteration i+1.

    `unscored` counts runs that ended without any score; in the means they stand as 0.
    """

    name: str
    scores: tuple[float, ...]
    full_passes: int
    calls: float
    output_tokens: float
    unscored: int = 0


class Comparison(Frozen):
    """Both arms over the same number of seeds and calls."""

    type: str = "comparison"
    seeds: int
    iterations: int
    loop: Arm
    best_of_n: Arm


def best_so_far(scores: Sequence[float | None], length: int) -> tuple[float, ...]:
    """The best score after each of `length` tries; the last one stands when there were fewer."""
    best = 0.0
    found: list[float] = []
    for score in scores:
        best = max(best, score or 0.0)
        found.append(best)
    return tuple((*found, *([best] * length))[:length])


def calls_by_iteration(result: RunResult, length: int) -> tuple[int, ...]:
    """How many model calls a loop had made after each iteration; an ended loop makes no more."""
    made = 0
    found: list[int] = []
    for record in result.iterations:
        made += record.model_calls
        found.append(made)
    return tuple((*found, *([made] * length))[:length])


def compare_arms(
    seeds: Sequence[tuple[RunResult, Sequence[RunResult]]], *, iterations: int
) -> Comparison:
    """Add up seeds: each is a loop, and single tries as many as the loop made calls.

    Best-of-n at iteration i is the best of as many tries as the loop had made calls by then.
    """
    loops = [best_so_far([r.score for r in loop.iterations], iterations) for loop, _ in seeds]
    tries = [_tries_curve(loop, singles, iterations) for loop, singles in seeds]
    singles = [single for _, made in seeds for single in made]
    return Comparison(
        seeds=len(seeds),
        iterations=iterations,
        loop=_arm("loop", loops, [loop for loop, _ in seeds], len(seeds)),
        best_of_n=_arm("best of n", tries, singles, len(seeds)),
    )


def _tries_curve(
    loop: RunResult, singles: Sequence[RunResult], iterations: int
) -> tuple[float, ...]:
    scores = [single.best.score if single.best else None for single in singles]
    best = best_so_far(scores, max(1, len(scores)))
    return tuple(
        best[min(calls, len(best)) - 1] if calls else 0.0
        for calls in calls_by_iteration(loop, iterations)
    )


def _arm(
    name: str, curves: Sequence[Sequence[float]], results: Sequence[RunResult], seeds: int
) -> Arm:
    means = tuple(sum(column) / seeds for column in zip(*curves, strict=True))
    return Arm(
        name=name,
        scores=tuple(round(mean, 4) for mean in means),
        full_passes=sum(curve[-1] >= 1 for curve in curves),
        unscored=sum(result.best is None or result.best.score is None for result in results),
        calls=round(sum(result.spend.model_calls for result in results) / seeds, 2),
        output_tokens=round(sum(result.spend.usage.output_tokens for result in results) / seeds, 1),
    )
