"""Termination conditions as data: what may stand in a tree, and what is wrong with one."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, field_validator, model_validator

from perdure.domain.budget.accounting import MAX_ITERATIONS, MOST_SECONDS
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.problems import Problem

REVIEW_ROUNDS = 5
MAX_DEPTH = 16
ROOT = "termination"

Comparison = Literal["<", "<=", "==", "!=", ">=", ">"]


class Confidence(FrozenModel):
    """The newest score reaches `threshold` once `min_iterations` are complete."""

    type: Literal["confidence"]
    threshold: float = Field(gt=0, le=1)
    min_iterations: int = Field(default=1, ge=1, le=MAX_ITERATIONS)


class MaxIterations(FrozenModel):
    """So many iterations are complete."""

    type: Literal["max_iterations"]
    limit: int = Field(ge=1, le=MAX_ITERATIONS)


class Timeout(FrozenModel):
    """So much active time (wall time when `wall`) is used; milliseconds are accepted."""

    type: Literal["timeout"]
    seconds: float = Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)
    wall: bool = False

    @model_validator(mode="before")
    @classmethod
    def _accept_milliseconds(cls, value: object) -> object:
        if not isinstance(value, dict) or "duration_ms" not in value:
            return value
        rest = {key: item for key, item in value.items() if key != "duration_ms"}
        if "seconds" in rest:
            raise ValueError("either seconds or duration_ms, not both")
        milliseconds = value["duration_ms"]
        most = MOST_SECONDS * 1000
        if (
            # To Python, True is a number.
            isinstance(milliseconds, bool)
            or not isinstance(milliseconds, int | float)
            # Before the division, which with a huge number ends in an `OverflowError`: a crash, as
            # pydantic lets it through.
            or not 0 < milliseconds <= most
        ):
            raise ValueError(f"duration_ms is a number of milliseconds above 0, at most {most:,}")
        return {**rest, "seconds": milliseconds / 1000}


class NoImprovement(FrozenModel):
    """So many iterations in a row brought no new best."""

    type: Literal["no_improvement"]
    patience: int = Field(ge=1, le=MAX_ITERATIONS)


class Degradation(FrozenModel):
    """Each of the last `window` scores is lower than the one before."""

    type: Literal["degradation"]
    window: int = Field(default=3, ge=2, le=MAX_ITERATIONS)


class RepeatedOutput(FrozenModel):
    """An output came back that was seen before in this run."""

    type: Literal["repeated_output"]


class EvaluationBound(FrozenModel):
    """The gate role approves; the round limit ends the loop without approval."""

    type: Literal["evaluation_bound"]
    criteria: str = Field(min_length=1)
    max_review_rounds: int = Field(default=REVIEW_ROUNDS, ge=1, le=MAX_ITERATIONS)


class GoalBound(FrozenModel):
    """The judge finds the goal achieved; the limit ends the loop without it."""

    type: Literal["goal_bound"]
    max_iterations: int = Field(ge=1, le=MAX_ITERATIONS)


class IterationBound(FrozenModel):
    """So many iterations are complete (the role loop's word for it)."""

    type: Literal["iteration_bound"]
    iterations: int = Field(ge=1, le=MAX_ITERATIONS)


class TimeBound(FrozenModel):
    """So many seconds of wall time passed (active time when not `wall`), or a moment came."""

    type: Literal["time_bound"]
    seconds: float | None = Field(default=None, gt=0, le=MOST_SECONDS, allow_inf_nan=False)
    until: AwareDatetime | None = None
    wall: bool = True

    @model_validator(mode="after")
    def _one_of_both(self) -> "TimeBound":
        if (self.seconds is None) == (self.until is None):
            raise ValueError("exactly one of seconds and until (an ISO date-time with an offset)")
        return self


class ToolBound(FrozenModel):
    """The leading number of a tool's last output compares true."""

    type: Literal["tool_bound"]
    tool: str = Field(min_length=1)
    operator: Comparison
    value: float = Field(allow_inf_nan=False)


class Manual(FrozenModel):
    """Only a stop ends the run."""

    type: Literal["manual"]


class Combined(FrozenModel):
    """Conditions joined: `or` needs one of them, `and` all."""

    type: Literal["combined"]
    operator: Literal["and", "or"]
    conditions: tuple["Condition", ...]

    @model_validator(mode="before")
    @classmethod
    def _any_case(cls, value: object) -> object:
        if isinstance(value, dict) and isinstance(value.get("operator"), str):
            return {**value, "operator": value["operator"].lower()}
        return value

    @field_validator("conditions")
    @classmethod
    def _not_empty(cls, value: tuple["Condition", ...]) -> tuple["Condition", ...]:
        if not value:
            raise ValueError("at least one condition")
        return value


Condition = Annotated[
    Confidence
    | MaxIterations
    | Timeout
    | NoImprovement
    | Degradation
    | RepeatedOutput
    | EvaluationBound
    | GoalBound
    | IterationBound
    | TimeBound
    | ToolBound
    | Manual
    | Combined,
    Field(discriminator="type"),
]
Combined.model_rebuild()

# By these a misspelt field is recognized: a new condition adds its own.
FIELDS = (
    "conditions",
    "criteria",
    "duration_ms",
    "iterations",
    "limit",
    "max_iterations",
    "max_review_rounds",
    "min_iterations",
    "operator",
    "patience",
    "seconds",
    "threshold",
    "tool",
    "type",
    "until",
    "value",
    "wall",
    "window",
)


def success_threshold(condition: Condition) -> float | None:
    """The smallest confidence threshold in the tree, or None without one."""
    thresholds = [leaf.threshold for leaf in leaves(condition) if isinstance(leaf, Confidence)]
    return min(thresholds, default=None)


def largest_limit(condition: Condition) -> int:
    """The largest number of iterations that the tree names, or 0."""
    return max((_limit(leaf) for leaf in leaves(condition)), default=0)


def certain_limit(condition: Condition) -> int | None:
    """The iterations after which the tree has come true whatever the scores are, or None."""
    match condition:
        case MaxIterations() | IterationBound() | GoalBound():
            return _limit(condition)
        case Combined():
            limits = [certain_limit(child) for child in condition.conditions]
            known = [limit for limit in limits if limit is not None]
            if condition.operator == "or":
                return min(known, default=None)
            return max(known) if len(known) == len(limits) else None
        case _:
            return None


def leaves(condition: Condition) -> tuple[Condition, ...]:
    """The conditions of a tree without its combinations, in order."""
    if not isinstance(condition, Combined):
        return (condition,)
    return tuple(leaf for child in condition.conditions for leaf in leaves(child))


def placed_leaves(condition: Condition, *, root: str = ROOT) -> tuple[tuple[str, Condition], ...]:
    """The conditions of a tree without its combinations, each with its path."""
    if not isinstance(condition, Combined):
        return ((root, condition),)
    return tuple(
        placed
        for index, child in enumerate(condition.conditions)
        for placed in placed_leaves(child, root=f"{root}.conditions[{index}]")
    )


def past_moments(condition: Condition, *, now: datetime, root: str = ROOT) -> tuple[Problem, ...]:
    """The moments that have come, each of which would end a run as soon as it begins.

    A moment that counts only together with another condition says when the run may end at the
    earliest, so it may have come.
    """
    match condition:
        case TimeBound(until=until) if until is not None and until <= now:
            allowed = f"a moment in the future, as it is {now:%Y-%m-%dT%H:%M:%SZ} now"
            return (Problem(path=f"{root}.until", found=until.isoformat(), allowed=allowed),)
        case Combined(operator="or", conditions=parts):
            return tuple(
                problem
                for index, part in enumerate(parts)
                for problem in past_moments(part, now=now, root=f"{root}.conditions[{index}]")
            )
        case _:
            return ()


def _limit(leaf: Condition) -> int:
    match leaf:
        case MaxIterations():
            return leaf.limit
        case IterationBound():
            return leaf.iterations
        case GoalBound():
            return leaf.max_iterations
        case EvaluationBound():
            return leaf.max_review_rounds
        # It cannot come true before, so the hard limit must leave it as many.
        case Confidence():
            return leaf.min_iterations
        case _:
            return 0
