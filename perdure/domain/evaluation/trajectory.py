"""The trajectory of a run: its scores so far, the best of them, and how they move.

It is a fold of bounded size: aggregates decide, and only the newest points are kept.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from perdure.domain.foundation.base import FrozenModel

# As floats, 0.9 - 0.7 is more than 0.2: rounded, a fall of exactly the threshold is none.
SCORE_DECIMALS = 9
RECENT_POINTS = 20
PERFECT = 1.0
DEGRADATION_WINDOW = 3

CompareWith = Literal["previous", "best"]


def rounded(value: float) -> float:
    """A score, or a difference of scores, as it is compared."""
    return round(value, SCORE_DECIMALS)


def is_score(value: float) -> bool:
    """Whether a number may stand as a score: finite, from 0 to 1."""
    return 0.0 <= value <= 1.0  # false for NaN too


Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), AfterValidator(rounded)]


class ScoredIteration(FrozenModel):
    """An iteration to remember, such as the best; `score` is None until one was scored."""

    iteration: int
    score: Score | None = None


class Point(FrozenModel):
    """One iteration on the curve; an unscored one has no score."""

    iteration: int
    score: Score | None = None
    # Nothing sets it any more. Histories have it, and a state with an unknown field is read, and so
    # continued as new, in another way.
    dimensions: dict[str, float] = {}


class Trajectory(FrozenModel):
    """All that later decisions need of the iterations so far.

    `best_before` is the best score before the newest iteration, `previous` the scored one before
    the newest scored, `since_best` the iterations in a row without a new best (unscored ones
    count), `falls` how often in a row a score was lower than the one before.
    """

    completed: int = 0
    scored: int = 0
    best: ScoredIteration | None = None
    best_before: Score | None = None
    current: Score | None = None
    latest: Score | None = None
    previous: Score | None = None
    since_best: int = 0
    falls: int = 0
    recent: tuple[Point, ...] = ()

    def after(self, score: float | None, *, has_output: bool = True) -> "Trajectory":
        """The trajectory with one more iteration.

        Args:
            score: its overall score; None, or a value that is no score, counts as unscored.
            has_output: whether there is anything that could be returned; without it no score.
        """
        current = _known(score) if has_output else None
        iteration = self.completed + 1
        point = Point(iteration=iteration, score=current)
        best_score = self.best.score if self.best else None
        is_scored = current is not None
        return Trajectory(
            completed=iteration,
            scored=self.scored + is_scored,
            best=_best(
                self.best,
                ScoredIteration(iteration=iteration, score=current),
                has_output=has_output,
            ),
            best_before=best_score,
            current=current,
            # Both move at scored iterations alone, so that a change is measured across failures
            # between.
            latest=current if is_scored else self.latest,
            previous=self.latest if is_scored else self.previous,
            # A tie moves `best` to the later draft, and is no improvement: patience counts it.
            since_best=0 if _improves(current, best_score) else self.since_best + 1,
            falls=self._falls_after(current),
            recent=(*self.recent, point)[-RECENT_POINTS:],
        )

    @property
    def gain(self) -> float | None:
        """The newest score minus the best before it; None when one of them is missing."""
        if self.current is None or self.best_before is None:
            return None
        return rounded(self.current - self.best_before)

    @property
    def change(self) -> float | None:
        """The newest score minus the scored one before it; None when one of them is missing."""
        if self.current is None or self.previous is None:
            return None
        return rounded(self.current - self.previous)

    def has_regressed(self, threshold: float, compare_with: CompareWith = "previous") -> bool:
        """Whether the newest score fell by more than `threshold` (exactly as much is none)."""
        fall = self.change if compare_with == "previous" else self.gain
        return fall is not None and -fall > rounded(threshold)

    def is_diminishing(self, threshold: float) -> bool:
        """Whether the newest score gained less than `threshold` on the one before it."""
        return self.change is not None and self.change < rounded(threshold)

    def is_degrading(self, window: int = DEGRADATION_WINDOW) -> bool:
        """Whether the last `window` scores each are lower than the one before."""
        return self.falls >= window - 1

    def has_no_new_best(self, patience: int) -> bool:
        """Whether `patience` iterations in a row brought no new best; a tie is none."""
        return self.since_best >= patience

    def has_reached(self, threshold: float) -> bool:
        """Whether the newest iteration is scored at least `threshold`."""
        return self.current is not None and self.current >= rounded(threshold)

    def _falls_after(self, current: float | None) -> int:
        if current is None:
            # A draft without a score neither goes on with a fall nor ends it.
            return self.falls
        return self.falls + 1 if self.latest is not None and current < self.latest else 0


def _known(score: float | None) -> float | None:
    return rounded(score) if score is not None and is_score(score) else None


def _improves(current: float | None, best: float | None) -> bool:
    return current is not None and (best is None or current > best)


def _best(
    best: ScoredIteration | None, candidate: ScoredIteration, *, has_output: bool
) -> ScoredIteration | None:
    """Scored beats unscored, higher beats lower, later beats earlier."""
    if not has_output:
        return best
    if best is None or best.score is None:
        return candidate
    return candidate if candidate.score is not None and candidate.score >= best.score else best
