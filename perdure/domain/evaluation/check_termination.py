"""Evaluates a tree of termination conditions against the facts of a run.

Conditions are the ones that a task or definition writes itself, read after an iteration's
evaluation and before any refinement. The built-in rules of a refine loop (regression, patience,
repeated output …) are in `perdure.domain.refine.stop_rules`, those of a loop of roles in
`perdure.domain.roles.stop_rules`.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import assert_never

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.evaluation.outcomes import RunEnd, run_end
from perdure.domain.evaluation.termination_conditions import (
    Combined,
    Comparison,
    Condition,
    Confidence,
    Degradation,
    EvaluationBound,
    GoalBound,
    IterationBound,
    Manual,
    MaxIterations,
    NoImprovement,
    RepeatedOutput,
    TimeBound,
    Timeout,
    ToolBound,
)
from perdure.domain.evaluation.trajectory import Trajectory

_LEADING_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?)")
_COMPARE: Mapping[Comparison, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


@dataclass(frozen=True, slots=True)
class TerminationFacts:
    """What conditions can depend on, after an iteration.

    `approved` and `goal_achieved` are the verdicts of this iteration, None when nobody was asked;
    `tool_outputs` the last output of each tool; `now` is needed for moments only.
    """

    trajectory: Trajectory
    active_seconds: float = 0.0
    wall_seconds: float = 0.0
    now: datetime | None = None
    repeated: bool = False
    approved: bool | None = None
    review_rounds: int = 0
    goal_achieved: bool | None = None
    tool_outputs: Mapping[str, str] = field(default_factory=dict)


def check_termination(condition: Condition, facts: TerminationFacts) -> RunEnd | None:
    """The verdict of a tree, or None while the run may go on."""
    match condition:
        case Combined():
            return _combined(condition, facts)
        case Confidence() | MaxIterations() | IterationBound() | NoImprovement() | Degradation():
            return _by_progress(condition, facts.trajectory)
        case RepeatedOutput():
            return run_end("best_effort", "repeated_output") if facts.repeated else None
        case Timeout():
            return _spent(condition.seconds, wall=condition.wall, facts=facts)
        case TimeBound():
            return _time_bound(condition, facts)
        case EvaluationBound():
            return _evaluation_bound(condition, facts)
        case GoalBound():
            return _goal_bound(condition, facts)
        case ToolBound():
            return _tool_bound(condition, facts)
        case Manual():
            return None
        case _:
            assert_never(condition)


def _combined(condition: Combined, facts: TerminationFacts) -> RunEnd | None:
    # In order: of several that come true under `or`, the first one names the outcome.
    verdicts = [check_termination(child, facts) for child in condition.conditions]
    true = [verdict for verdict in verdicts if verdict is not None]
    if condition.operator == "or":
        return true[0] if true else None
    if len(true) < len(verdicts):
        return None
    explanation = " And: ".join(verdict.explanation for verdict in true)
    return true[0].model_copy(update={"explanation": explanation})


def _by_progress(
    condition: Confidence | MaxIterations | IterationBound | NoImprovement | Degradation,
    trajectory: Trajectory,
) -> RunEnd | None:
    match condition:
        case Confidence():
            late = trajectory.completed >= condition.min_iterations
            if not (late and trajectory.has_reached(condition.threshold)):
                return None
            figures = f"score {trajectory.current:g}, threshold {condition.threshold:g}"
            return run_end("accepted", "quality_met", figures)
        case MaxIterations():
            return _rounds(trajectory.completed, condition.limit)
        case IterationBound():
            return _rounds(trajectory.completed, condition.iterations)
        case NoImprovement():
            if not trajectory.has_no_new_best(condition.patience):
                return None
            return run_end("best_effort", "plateau", f"{trajectory.since_best} without a new best")
        case Degradation():
            if not trajectory.is_degrading(condition.window):
                return None
            return run_end(
                "regressed", "degradation", f"{condition.window} scores in a row falling"
            )


def _rounds(completed: int, limit: int) -> RunEnd | None:
    if completed < limit:
        return None
    return run_end("best_effort", "max_iterations", f"{completed} of {limit}")


def _spent(seconds: float, *, wall: bool, facts: TerminationFacts) -> RunEnd | None:
    used = facts.wall_seconds if wall else facts.active_seconds
    if used < seconds:
        return None
    return run_end(
        "deadline", "wall_time" if wall else "active_time", f"{used:.1f} of {seconds:g} s"
    )


def _time_bound(condition: TimeBound, facts: TerminationFacts) -> RunEnd | None:
    if condition.seconds is not None:
        return _spent(condition.seconds, wall=condition.wall, facts=facts)
    if condition.until is None or facts.now is None or facts.now < condition.until:
        return None
    return run_end("deadline", "wall_time", f"until {condition.until.isoformat()}")


def _evaluation_bound(condition: EvaluationBound, facts: TerminationFacts) -> RunEnd | None:
    # The verdict before the limit: what is approved in the last permitted round is approved.
    if facts.approved:
        return run_end("accepted", "approved")
    return _rounds(facts.review_rounds, condition.max_review_rounds)


def _goal_bound(condition: GoalBound, facts: TerminationFacts) -> RunEnd | None:
    # The verdict before the limit, as above.
    if facts.goal_achieved:
        return run_end("accepted", "goal_achieved")
    return _rounds(facts.trajectory.completed, condition.max_iterations)


def _tool_bound(condition: ToolBound, facts: TerminationFacts) -> RunEnd | None:
    number = leading_number(facts.tool_outputs.get(condition.tool, ""))
    if number is None or not _COMPARE[condition.operator](number, condition.value):
        return None
    figures = f"{condition.tool} gave {number:g}, {condition.operator} {condition.value:g}"
    return run_end("accepted", "completed", figures)


def leading_number(text: str) -> float | None:
    """The finite number that a text starts with, or None."""
    found = _LEADING_NUMBER.match(text)
    if found is None:
        return None
    number = float(found.group(1))
    # An infinity would satisfy any comparison, so a tool that prints `1e999` could end the run.
    return number if math.isfinite(number) else None


@dataclass(frozen=True, slots=True)
class Clocks:
    """The time limits of a condition, in seconds; None where it has none."""

    wall: float | None = None
    active: float | None = None


def clocks(condition: Condition, *, started_at: datetime) -> Clocks:
    """The time limits that end the run by themselves, so that a timer can watch them.

    Limits that count only together with another condition are checked after each iteration.
    """
    match condition:
        case TimeBound(seconds=None, until=until) if until is not None:
            # Never 0, which would mean no limit.
            left = max(timedelta(milliseconds=1), until - started_at)
            return Clocks(wall=left.total_seconds())
        case TimeBound(seconds=seconds, wall=wall) | Timeout(seconds=seconds, wall=wall):
            return Clocks(wall=seconds) if wall else Clocks(active=seconds)
        # Under `and` a clock alone ends nothing, so no timer may watch it.
        case Combined() if condition.operator == "or":
            each = [clocks(child, started_at=started_at) for child in condition.conditions]
            return Clocks(
                wall=_lowest([one.wall for one in each]),
                active=_lowest([one.active for one in each]),
            )
        case _:
            return Clocks()


def limits_with(
    budget: BudgetLimits, condition: Condition | None, *, started_at: datetime
) -> BudgetLimits:
    """The task's budget, with the condition's time limits: of two on one clock the lower."""
    if condition is None:
        return budget
    found = clocks(condition, started_at=started_at)
    return budget.model_copy(
        update={
            "wall_time": _lowest([budget.wall_time, found.wall]),
            "active_time": _lowest([budget.active_time, found.active]),
        }
    )


def _lowest(values: list[float | None]) -> float | None:
    # Zero means unlimited, as None does.
    return min((value for value in values if value), default=None)
