"""Time limits of a condition as limits of a run's budget, which end a step in flight."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from perdure.domain.budget.envelope import BudgetLimits
from perdure.domain.evaluation.conditions import Combined, Condition, TimeBound, Timeout


@dataclass(frozen=True, slots=True)
class Clocks:
    """The time limits of a condition, in seconds; None where it has none."""

    wall: float | None = None
    active: float | None = None


def clocks(condition: Condition, *, started_at: datetime) -> Clocks:
    """The limits that end the run whatever else is true: a timer can watch them.

    Those that only count together with another condition are looked at after an iteration.
    """
    match condition:
        case TimeBound(seconds=None, until=until) if until is not None:
            left = max(timedelta(milliseconds=1), until - started_at)
            return Clocks(wall=left.total_seconds())
        case TimeBound(seconds=seconds, wall=wall) | Timeout(seconds=seconds, wall=wall):
            return Clocks(wall=seconds) if wall else Clocks(active=seconds)
        case Combined() if condition.operator == "or":
            each = [clocks(child, started_at=started_at) for child in condition.conditions]
            return Clocks(
                wall=_lowest([one.wall for one in each]),
                active=_lowest([one.active for one in each]),
            )
        case _:
            return Clocks()


def limits_of(budget: BudgetLimits, condition: Condition, *, started_at: datetime) -> BudgetLimits:
    """The task's budget, with the condition's time limits: of two on one clock the lower."""
    found = clocks(condition, started_at=started_at)
    return budget.model_copy(
        update={
            "wall_time": _lowest([budget.wall_time, found.wall]),
            "active_time": _lowest([budget.active_time, found.active]),
        }
    )


def limits_with(
    condition: Condition | None, budget: BudgetLimits, *, started_at: datetime
) -> BudgetLimits:
    """The same for a task that may have no condition of its own."""
    return budget if condition is None else limits_of(budget, condition, started_at=started_at)


def _lowest(values: list[float | None]) -> float | None:
    return min((value for value in values if value), default=None)
