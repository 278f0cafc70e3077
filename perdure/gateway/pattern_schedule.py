"""The schedule of pattern mining, and mining right now."""

from datetime import timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.foundation.errors import InvalidInput, NoReadyWorker
from perdure.domain.foundation.names import MINING_WORKFLOW, loops_queue, mining_schedule_id
from perdure.domain.memory.patterns import MineReport, MiningInput
from perdure.domain.ports import RecordStore
from perdure.gateway.start import Starter
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.types import MiningSchedule, QueueState, worker_command

SHORTEST = timedelta(minutes=1)
LONGEST = timedelta(days=366)
LOOK_AT_MOST = timedelta(minutes=5)


class Mining:
    """Manages the schedule of pattern mining of one installation."""

    def __init__(self, *, server: TemporalGateway, starter: Starter, records: RecordStore) -> None:
        self._server = server
        self._readiness = starter.readiness
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
        """Look at this interval from now on; a schedule that is there is changed.

        Raises:
            InvalidInput: the interval is under a minute or over a year.
        """
        if not SHORTEST <= interval <= LONGEST:
            raise InvalidInput(
                f"Patterns cannot be mined every {interval.total_seconds():g} seconds.",
                cure="Give 1m to 366d, such as --every 24h.",
            )
        schedule = await self._schedule(interval)
        schedule_id = await self._id()
        with self._server.translated():
            client = await self._server.client()
            try:
                await client.create_schedule(schedule_id, schedule)
            except ScheduleAlreadyRunningError:
                handle = client.get_schedule_handle(schedule_id)
                await handle.update(lambda _: ScheduleUpdate(schedule=schedule))
            return state_of(await client.get_schedule_handle(schedule_id).describe())

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

    async def now(self) -> MineReport:
        """Look once and wait for what it gave; two at once are one.

        Raises:
            NoReadyWorker: nobody works on the queue of the loops.
        """
        queue = loops_queue(await self._records.installation())
        found = await self._readiness.ask(QueueState(queue=queue, serves="loops"))
        if not found.served:
            raise NoReadyWorker(
                "Nobody works on the queue that looks for patterns.",
                cure=f"Start one with {worker_command(None)}.",
            )
        with self._server.translated():
            client = await self._server.client()
            return await client.execute_workflow(
                MINING_WORKFLOW,
                MiningInput(queue=queue),
                id=f"{await self._id()}-now",
                task_queue=queue,
                result_type=MineReport,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                execution_timeout=LOOK_AT_MOST,
                static_summary="look for patterns",
            )

    async def _schedule(self, interval: timedelta) -> Schedule:
        queue = loops_queue(await self._records.installation())
        return Schedule(
            action=ScheduleActionStartWorkflow(
                MINING_WORKFLOW,
                MiningInput(queue=queue),
                id=await self._id(),
                task_queue=queue,
                execution_timeout=LOOK_AT_MOST,
                static_summary="look for patterns",
            ),
            spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=interval)]),
            # A look sees all events, so that one that was missed need not be made up for.
            policy=SchedulePolicy(
                overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(minutes=10)
            ),
        )

    async def _handle(self) -> ScheduleHandle:
        client: Client = await self._server.client()
        return client.get_schedule_handle(await self._id())

    async def _id(self) -> str:
        return mining_schedule_id(await self._records.installation())


def state_of(described: ScheduleDescription) -> MiningSchedule:
    """A schedule of one interval as it stands."""
    info, intervals = described.info, described.schedule.spec.intervals
    recent = [item.scheduled_at for item in info.recent_actions]
    return MiningSchedule(
        id=described.id,
        every_s=intervals[0].every.total_seconds() if intervals else None,
        paused=described.schedule.state.paused,
        looks=info.num_actions,
        last_at=max(recent, default=None),
        next_at=min(info.next_action_times, default=None),
    )
