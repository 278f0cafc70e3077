"""How scheduled work went: missed starts of schedules, and garbage collections."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.foundation.names import scheduled_name
from perdure.domain.ports import RecordStore
from perdure.domain.run.figures import ClockLoad
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.types import UpkeepOutcome, UpkeepSchedule
from perdure.gateway.upkeep import Upkeep

# Each schedule takes a request to the server, and monitoring asks several times a minute.
KNOWN_FOR_S = 60.0
MOST_SCHEDULES = 500
# One interval may pass without a start, for example because a collection took longer.
LATE_AFTER_INTERVALS = 2


class ClockReader:
    """Asks the server about schedules, and caches the answer for a minute."""

    def __init__(
        self,
        *,
        server: TemporalGateway,
        records: RecordStore,
        collections: Upkeep,
        now: Callable[[], datetime],
    ) -> None:
        self._server = server
        self._records = records
        self._collections = collections
        self._now = now
        self._known: ClockLoad | None = None
        self._asked_at = 0.0

    async def read(self) -> ClockLoad:
        """The server's answer; an empty one if it cannot be asked, which other figures show."""
        clock = asyncio.get_running_loop().time()
        if self._known is not None and clock - self._asked_at < KNOWN_FOR_S:
            return self._known
        try:
            found = await self._collected()
            self._known = found.model_copy(update={"missed": await self._missed()})
        except PerdureError:
            return ClockLoad()
        self._asked_at = clock
        return self._known

    async def _collected(self) -> ClockLoad:
        stands = await self._collections.state()
        if stands is None or stands.every_s is None:
            return ClockLoad()
        went = await self._collections.outcome()
        return ClockLoad(
            collection_fails=went.failed is not None,
            collection_overdue_s=overdue_s(stands, went, self._now()),
        )

    async def _missed(self) -> Mapping[str, int]:
        installation, found = await self._records.installation(), dict[str, int]()
        client = await self._server.client()
        with self._server.translate_errors():
            async for one in await client.list_schedules():
                name = scheduled_name(one.id, installation)
                if name is None:
                    continue
                # The list does not have this figure.
                described = await client.get_schedule_handle(one.id).describe()
                found[name] = described.info.num_actions_missed_catchup_window
                if len(found) == MOST_SCHEDULES:
                    break
        return found


def overdue_s(stands: UpkeepSchedule, went: UpkeepOutcome, now: datetime) -> float:
    """For how many seconds a success has been overdue; 0 if it is on time or one is at work."""
    last = went.succeeded_at or stands.last_at or stands.created_at
    at_work = went.open and went.failed is None and not went.unfetched
    if last is None or stands.every_s is None or at_work:
        return 0.0
    due = last + timedelta(seconds=LATE_AFTER_INTERVALS * stands.every_s)
    return max((now - due).total_seconds(), 0.0)
