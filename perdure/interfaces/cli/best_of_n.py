"""The loop against best-of-n with the same number of calls, from runs that were really made."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.run.result import RunResult


class Arm(FrozenModel):
    """One way of working over all seeds; `scores[i]` is the mean best score after iteration i+1.

    `unscored` counts runs that ended without any score; in the means they stand as 0.
    """

    name: str
    scores: tuple[float, ...]
    full_passes: int
    calls: float
    output_tokens: float
    unscored: int = 0


class Comparison(FrozenModel):
    """The arms over the same seeds.

    At every iteration `best_of_n` had as many calls as the loop, `same_tokens` no more tokens
    (but one call), and `single` made one try in all.
    """

    type: str = "comparison"
    seeds: int
    iterations: int
    loop: Arm
    best_of_n: Arm
    same_tokens: Arm
    single: Arm

    @property
    def arms(self) -> tuple[Arm, ...]:
        """All of them, the loop first."""
        return (self.loop, self.best_of_n, self.same_tokens, self.single)


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
    return _sums([record.model_calls for record in result.iterations], length)


def tokens_by_iteration(result: RunResult, length: int) -> tuple[int, ...]:
    """How many tokens a loop had used after each iteration."""
    return _sums([record.usage.counted_tokens() for record in result.iterations], length)


def compare_arms(
    seeds: Sequence[tuple[RunResult, Sequence[RunResult]]], *, iterations: int
) -> Comparison:
    """Add up seeds: each is a loop, and single tries as many as the loop made calls.

    Best-of-n at iteration i is the best of as many tries as the loop had made calls by then.
    """
    by_calls = [calls_by_iteration(loop, iterations) for loop, _ in seeds]
    by_tokens = [_affordable(loop, singles, iterations) for loop, singles in seeds]
    once = [(1,) * iterations for _ in seeds]
    tries = [singles for _, singles in seeds]
    return Comparison(
        seeds=len(seeds),
        iterations=iterations,
        loop=_arm(
            "loop",
            [best_so_far([r.score for r in loop.iterations], iterations) for loop, _ in seeds],
            [loop for loop, _ in seeds],
        ),
        best_of_n=_tries("best of n, same calls", tries, by_calls),
        same_tokens=_tries("best of n, same tokens", tries, by_tokens),
        single=_tries("single try", tries, once),
    )


def _sums(counts: Sequence[int], length: int) -> tuple[int, ...]:
    found = tuple(accumulate(counts))
    return (*found, *([found[-1] if found else 0] * length))[:length]


def _affordable(loop: RunResult, singles: Sequence[RunResult], length: int) -> tuple[int, ...]:
    """How many tries the loop's tokens would have paid for after each iteration; at least one."""
    spent = list(accumulate(single.spend.tokens for single in singles))
    return tuple(max(1, bisect_right(spent, sum_)) for sum_ in tokens_by_iteration(loop, length))


def _tries(
    name: str, seeds: Sequence[Sequence[RunResult]], counts: Sequence[tuple[int, ...]]
) -> Arm:
    """The best of as many tries as `counts` says for each seed and iteration."""
    curves = [_curve(made, count) for made, count in zip(seeds, counts, strict=True)]
    used = [one for made, count in zip(seeds, counts, strict=True) for one in made[: count[-1]]]
    return _arm(name, curves, used)


def _curve(singles: Sequence[RunResult], counts: tuple[int, ...]) -> tuple[float, ...]:
    scores = [single.best.score if single.best else None for single in singles]
    best = best_so_far(scores, max(1, len(scores)))
    return tuple(best[min(count, len(best)) - 1] if count else 0.0 for count in counts)


def _arm(name: str, curves: Sequence[Sequence[float]], results: Sequence[RunResult]) -> Arm:
    seeds = len(curves)
    means = tuple(sum(column) / seeds for column in zip(*curves, strict=True))
    return Arm(
        name=name,
        scores=tuple(round(mean, 4) for mean in means),
        full_passes=sum(curve[-1] >= 1 for curve in curves),
        unscored=sum(result.best is None or result.best.score is None for result in results),
        calls=round(sum(result.spend.model_calls for result in results) / seeds, 2),
        output_tokens=round(sum(result.spend.usage.output_tokens for result in results) / seeds, 1),
    )
