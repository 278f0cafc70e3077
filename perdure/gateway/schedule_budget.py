"""Checks the limit of open runs and the monthly budget when a worker opens a run of a schedule.

The worker checks, since the server knows no money. The store decides, so it does not matter on
which host the run is opened. People are told of a refused start; the schedule goes on.
"""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, tzinfo

from pydantic import JsonValue

from perdure.domain.foundation.errors import MonthSpent, NoRoom, NotAllowed, ServiceUnavailable
from perdure.domain.foundation.names import scheduled_name
from perdure.domain.ports import RecordStore
from perdure.domain.schedules.admission import TurnedAway
from perdure.domain.schedules.plan import month_of
from perdure.domain.schedules.store import ScheduleStore
from perdure.domain.specs import Spec
from perdure.event_log import get_logger
from perdure.gateway.admission import Room

_log = get_logger(__name__)
Tell = Callable[[dict[str, JsonValue]], Awaitable[bool]]


@dataclass(frozen=True)
class Admitting:
    """Admits starts of schedules.

    Args:
        store: the schedules.
        records: has the id of the installation.
        tell: stores a notice and tells people, if a channel is set; raises only `StoreError`.
        now: the clock.
    """

    store: Callable[[], ScheduleStore]
    _: KW_ONLY
    records: RecordStore
    tell: Tell
    now: Callable[[], datetime]

    async def admit(self, schedule: str, run: str, spec: Spec, *, room: Room | None) -> Spec:
        """The specification, its budget lowered to what is left of the month; see `Admit`.

        A run of a Temporal schedule that is not ours is not counted. Of ours, each has a row: one
        without was made after the backup that was restored, and no month limits it.
        """
        name = scheduled_name(schedule, await self.records.installation())
        if name is None:
            return spec
        if room is not None:
            await self._require_room(name, run, room)
        found = await self.store().admit(name, run, spec.budget, at=self.now())
        if isinstance(found, TurnedAway):
            refused = MonthSpent(
                f"The schedule {name} does not start this run: {found.why}.",
                cure="It starts again next month; to go on now, raise its budget with "
                f"`perdure schedule create {name} … --month-{found.unit.lower()} "
                f"{found.unit.upper()} --replace`.",
            )
            stored = await self.store().get(name)
            zone = UTC if stored is None else stored.plan.times.zone
            await self._notify_people(name, run, refused, month=self._month(zone))
            raise refused
        if found is None:
            unknown = NotAllowed(
                f"The database does not know the schedule {name}, so this run is not started.",
                cure=f"Create it again with `perdure schedule create {name} …`, or delete it with "
                f"`perdure schedule delete {name}`.",
            )
            await self._notify_people(name, run, unknown, month=self._month(UTC))
            raise unknown
        if not found.lowered:
            return spec
        limits = spec.budget.model_copy(update={"cost_usd": found.cost_usd, "tokens": found.tokens})
        return spec.model_copy(update={"budget": limits})

    async def _require_room(self, name: str, run: str, room: Room) -> None:
        """Check the limit of open runs; before the budget, so that a waiting start holds none."""
        try:
            full = await room()
        except NoRoom as error:
            refused = NoRoom(
                f"The schedule {name} does not start this run: {error.message}",
                cure="End runs that nobody needs, or raise the limit of its workers.",
            )
            await self._notify_people(name, run, refused)
            raise refused from None
        if full is not None:
            # The server retries the step.
            raise ServiceUnavailable(
                f"The schedule {name} starts this run when there is room: {full}.",
                cure="End runs that nobody needs, or raise the limit of its workers.",
            )

    def _month(self, zone: tzinfo) -> str:
        began, _ = month_of(self.now(), zone)
        return began.isoformat()

    async def _notify_people(
        self, name: str, run: str, refused: NotAllowed, *, month: str = ""
    ) -> None:
        """Tell people; with a month, only of the first start in it that is refused in these words.

        Otherwise a schedule of every minute would send a notice a minute until the month ends.
        """
        _log.warning("schedule_start_refused", schedule=name, run=run, why=refused.message)
        notice: dict[str, JsonValue] = {
            "run": run,
            "gate": "",
            "kind": "schedule",
            "prompt": refused.message,
            "choices": [],
            "reminder": 0,
            "schedule": name,
            "text": f"{refused.message}\n{refused.cure}",
        }
        if month:
            notice["month"] = month
        # The notice waits in the store until a channel takes it. If the store cannot keep it, the
        # step fails, and its next attempt refuses and tells again.
        await self.tell(notice)
