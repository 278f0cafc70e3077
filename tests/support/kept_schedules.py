"""Schedules in memory: what doors ask of them, without a server."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from perdure.domain.foundation.errors import NotFound
from perdure.domain.schedules.plan import SchedulePlan
from perdure.domain.schedules.status import ScheduleStatus, Triggered
from perdure.domain.schedules.store import ScheduledStart, UnreadableSchedule

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
REFUSED = "20 of 20 USD of this month are spent"


class MemorySchedules:
    """Schedules as somebody made them; a start by hand is a run, until the schedule is paused."""

    def __init__(self) -> None:
        self.kept: dict[str, ScheduleStatus] = {}
        self.strays: list[str] = []

    async def create(
        self,
        plan: SchedulePlan,
        *,
        paused: bool = False,
        replace: bool = False,
        noted: Callable[[], Awaitable[None]] | None = None,
    ) -> ScheduleStatus:
        if noted is not None:
            await noted()
        made = ScheduleStatus(
            plan=plan,
            state="paused" if paused else "active",
            created_at=NOW,
            changed_at=NOW,
            month_began=NOW,
            next_at=() if paused else (NOW + timedelta(hours=1),),
        )
        self.kept[plan.name] = made
        return made

    async def unreadable(self) -> list[UnreadableSchedule]:
        return []

    async def unknown(self) -> list[str]:
        return self.strays

    async def list(self) -> list[ScheduleStatus]:
        return sorted(self.kept.values(), key=lambda one: one.plan.name)

    async def status(self, name: str) -> ScheduleStatus:
        if name not in self.kept:
            raise NotFound(f"There is no schedule {name!r}.", cure="perdure schedule list")
        return self.kept[name]

    async def pause(self, name: str, *, note: str = "") -> ScheduleStatus:
        return await self._changed(name, state="paused", note=note, next_at=())

    async def resume(self, name: str, *, note: str = "") -> ScheduleStatus:
        return await self._changed(name, state="active", note=note)

    async def trigger(self, name: str, *, request: str | None = None) -> Triggered:
        known = await self.status(name)
        if known.state == "paused":
            refused = ScheduledStart(run=f"{name}-1", at=NOW, refused=REFUSED)
            await self._changed(name, starts=(refused,), refused=1)
            return Triggered(schedule=name, why="skipped, as a run is open")
        return Triggered(schedule=name, run=f"{name}-1")

    async def delete(self, name: str) -> None:
        await self.status(name)
        del self.kept[name]

    async def _changed(self, name: str, **changes: object) -> ScheduleStatus:
        self.kept[name] = (await self.status(name)).model_copy(update=changes)
        return self.kept[name]
