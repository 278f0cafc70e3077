"""How a schedule stands, for lists and for a look at one."""

from datetime import datetime
from typing import Literal

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.schedules.admission import MonthlySpend
from perdure.domain.schedules.plan import SchedulePlan
from perdure.domain.schedules.store import ScheduledStart

ScheduleState = Literal["active", "paused", "missing"]


class ScheduleStatus(FrozenModel):
    """A schedule with what it did and what it will do.

    Args:
        plan: the schedule.
        state: `missing` when the server does not know it.
        note: why it was paused or taken up again, where that was said.
        next_at: the next starts, the nearest first.
        running: its runs that are open now, by the server.
        starts: the newest starts first, those that were refused too; a task that could not run is
            told by its run.
        started: how many runs it started at the server.
        skipped: how many starts were left out because the run before was open.
        missed: how many were left out because they would have come too late.
        month: what was spent in this month.
        month_began: when this month began in the schedule's time zone.
        refused: how many starts of this month were refused because its budget was spent.
        problem: what keeps it from starting runs, in words.
    """

    plan: SchedulePlan
    state: ScheduleState
    created_at: datetime
    changed_at: datetime
    note: str = ""
    next_at: tuple[datetime, ...] = ()
    running: tuple[str, ...] = ()
    starts: tuple[ScheduledStart, ...] = ()
    started: int = 0
    skipped: int = 0
    missed: int = 0
    month: MonthlySpend = MonthlySpend()
    month_began: datetime
    refused: int = 0
    problem: str = ""


class Triggered(FrozenModel):
    """What came of a start by hand: a run, or why there is none yet.

    `replayed` says that the same request came before, and that this is what came of it then.
    """

    schedule: str
    run: str | None = None
    why: str = ""
    replayed: bool = False
