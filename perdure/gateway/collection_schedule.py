"""The schedule of garbage collection."""

from datetime import timedelta

from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
)
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.names import (
    COLLECTION_WORKFLOW,
    collection_schedule_id,
    loops_queue,
)
from perdure.domain.ports import RecordStore
from perdure.domain.retention.messages import CollectionInput
from perdure.gateway.pattern_schedule import LONGEST, SHORTEST, state_of
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.types import MiningSchedule

SUMMARY = "drop what is kept no longer"


class Collecting:
    """Manages the schedule of garbage collection of one installation."""

    def __init__(self, *, server: TemporalGateway, records: RecordStore) -> None:
        self._server = server
        self._records = records

    async def state(self) -> MiningSchedule | None:
        """The schedule as it stands, or None."""
        with self._server.translated():
            try:
                return state_of(await (await self._handle()).describe())
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    return None
                raise

    async def every(self, interval: timedelta) -> MiningSchedule:
        """Collect at this interval from now on; a schedule that is there is changed.

        Raises:
            InvalidInput: the interval is under a minute or over a year.
        """
        if not SHORTEST <= interval <= LONGEST:
            raise InvalidInput(
                f"Garbage cannot be collected every {interval.total_seconds():g} seconds.",
                cure="Give 1m to 366d, such as --every 24h.",
            )
        schedule, handle = await self._schedule(interval), await self._handle()
        with self._server.translated():
            client = await self._server.client()
            try:
                await client.create_schedule(handle.id, schedule)
            except ScheduleAlreadyRunningError:
                await handle.update(lambda _: ScheduleUpdate(schedule=schedule))
            return state_of(await handle.describe())

    async def off(self) -> bool:
        """End the schedule; False when there is none."""
        with self._server.translated():
            try:
                await (await self._handle()).delete()
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    return False
                raise
        return True

    async def _schedule(self, interval: timedelta) -> Schedule:
        queue = loops_queue(await self._records.installation())
        return Schedule(
            action=ScheduleActionStartWorkflow(
                COLLECTION_WORKFLOW,
                CollectionInput(queue=queue),
                id=collection_schedule_id(await self._records.installation()),
                task_queue=queue,
                static_summary=SUMMARY,
            ),
            spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=interval)]),
            # One collection sees all garbage, so that one that was missed need not be made up for.
            policy=SchedulePolicy(
                overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(minutes=10)
            ),
        )

    async def _handle(self) -> ScheduleHandle:
        client = await self._server.client()
        return client.get_schedule_handle(
            collection_schedule_id(await self._records.installation())
        )
