"""Room and the budget of the month for a run that a schedule started, where it is opened.

A worker asks, not the server: whatever started the run, at whichever host it is opened, the store's
books decide. A start that is refused is told to people; the schedule goes on.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime

import structlog
from pydantic import JsonValue

from perdure.domain.foundation.errors import MonthSpent, NoRoom, NotAllowed, ServiceUnavailable
from perdure.domain.foundation.names import scheduled_name
from perdure.domain.ports import RecordStore
from perdure.domain.schedules.admission import TurnedAway
from perdure.domain.schedules.store import ScheduleStore
from perdure.domain.specs import Spec
from perdure.gateway.admission import Room

_log = structlog.get_logger(__name__)
Tell = Callable[[dict[str, JsonValue]], Awaitable[bool]]


class Admitting:
    """Takes starts into the books of their schedule.

    Args:
        store: the schedules.
        records: the installation.
        tell: keeps a notice and tells people, where a channel is set; raises `StoreError` alone.
        now: the clock.
    """

    def __init__(
        self,
        store: Callable[[], ScheduleStore],
        *,
        records: RecordStore,
        tell: Tell,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._records = records
        self._tell = tell
        self._now = now

    async def admit(self, schedule: str, run: str, spec: Spec, *, room: Room | None) -> Spec:
        """The specification with what the month leaves of its budget: see `Admit`.

        A run of somebody else's Temporal schedule is not counted.
        """
        name = scheduled_name(schedule, await self._records.installation())
        if name is None:
            return spec
        if room is not None:
            await self._has_room(name, run, room)
        found = await self._store().admit(name, run, spec.budget, at=self._now())
        if isinstance(found, TurnedAway):
            refused = MonthSpent(
                f"The schedule {name} does not start this run: {found.why}.",
                cure="It starts again next month; to go on now, raise its budget with "
                f"`perdure schedule create {name} … --month-usd USD --replace`.",
            )
            await self._told(name, run, refused)
            raise refused
        if found is None or not found.lowered:
            return spec
        limits = spec.budget.model_copy(update={"cost_usd": found.cost_usd, "tokens": found.tokens})
        return spec.model_copy(update={"budget": limits})

    async def _has_room(self, name: str, run: str, room: Room) -> None:
        """Before the books are asked: a start that waits holds nothing of its month."""
        try:
            full = await room()
        except NoRoom as error:
            refused = NoRoom(
                f"The schedule {name} does not start this run: {error.message}",
                cure="End runs that nobody needs, or raise the limit of its workers.",
            )
            await self._told(name, run, refused)
            raise refused from None
        if full is not None:
            # The server repeats the step.
            raise ServiceUnavailable(
                f"The schedule {name} starts this run when there is room: {full}.",
                cure="End runs that nobody needs, or raise the limit of its workers.",
            )

    async def _told(self, name: str, run: str, refused: NotAllowed) -> None:
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
        # It waits in the store until a channel takes it. A store that cannot keep it ends the step,
        # whose next attempt refuses and tells the same.
        await self._tell(notice)
