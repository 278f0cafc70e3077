"""Where schedules are kept, with the runs that they started and the starts that were refused."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.schedules.admission import Admitted, MonthlySpend, TurnedAway
from perdure.domain.schedules.plan import SchedulePlan


class StoredSchedule(FrozenModel):
    """A schedule as its row says; one that was deleted still counts what its runs spend."""

    plan: SchedulePlan
    created_at: datetime
    changed_at: datetime
    deleted_at: datetime | None = None

    @property
    def name(self) -> str:
        return self.plan.name


class UnreadableSchedule(FrozenModel):
    """A row whose plan this version cannot read; `why` says what is wrong and what to do."""

    name: str
    why: str


class ScheduledStart(FrozenModel):
    """A start that a schedule made: `refused` says why it came to nothing, if it did."""

    run: str
    at: datetime
    refused: str = ""


class ScheduleStore(Protocol):
    """Rows of schedules. Every write may be repeated."""

    async def put(self, plan: SchedulePlan, *, at: datetime, replace: bool) -> bool:
        """Keep a schedule; False when there is another of that name, and it is not to go."""
        ...

    async def take_back(self, plan: SchedulePlan, *, former: StoredSchedule | None) -> None:
        """Undo a `put`: the row is `former` again, unless somebody else changed it since."""
        ...

    async def get(self, name: str) -> StoredSchedule | None:
        """A schedule by its name, deleted ones too; raises `Unreadable`."""
        ...

    async def list(self) -> Sequence[StoredSchedule | UnreadableSchedule]:
        """Those that were not deleted, by name."""
        ...

    async def mark_deleted(self, name: str, *, at: datetime) -> bool:
        """Note that it was deleted; False when it was not there."""
        ...

    async def admit(
        self, name: str, run: str, asked: BudgetLimits, *, at: datetime
    ) -> Admitted | TurnedAway | None:
        """Take a start into the month's books, and say what it may spend.

        A repeat gives what the run was given. Two starts at once are admitted one after the other.

        Returns:
            None where no schedule of that name is known.
        """
        ...

    async def spend(self, name: str, *, at: datetime) -> MonthlySpend:
        """What a schedule's runs spent in the month of a moment, by the journal."""
        ...

    async def starts(self, name: str, *, limit: int = 20) -> Sequence[ScheduledStart]:
        """The newest starts first."""
        ...

    async def refusals(self, name: str, *, at: datetime) -> int:
        """How many starts were refused in the month of a moment."""
        ...

    async def bring_up(self, *, forget_before: datetime) -> None:
        """Add to the books of all schedules what was spent since, and forget months before."""
        ...
