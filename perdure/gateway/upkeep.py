"""Upkeep of an installation: pattern mining and garbage collection, scheduled or on demand."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from temporalio.client import (
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
    WorkflowFailureError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ActivityError, FailureError
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.foundation.errors import InvalidInput, NoReadyWorker
from perdure.domain.foundation.names import (
    COLLECTION_WORKFLOW,
    MINING_WORKFLOW,
    collection_schedule_id,
    loops_queue,
    mining_schedule_id,
)
from perdure.domain.memory.patterns import MineReport, MiningInput
from perdure.domain.ports import RecordStore
from perdure.domain.retention.messages import CollectionInput
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.readiness import Readiness
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.types import QueueState, UpkeepOutcome, UpkeepSchedule, worker_command

SHORTEST = timedelta(minutes=1)
LONGEST = timedelta(days=366)
LOOK_AT_MOST = timedelta(minutes=5)

Duty = Literal["mining", "collection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """The workflow that the schedule of a duty starts."""

    workflow: str
    id: str
    given: MiningInput | CollectionInput
    summary: str
    refusal: str
    at_most: timedelta | None = None


class Upkeep:
    """The schedule of one duty of one installation."""

    def __init__(self, duty: Duty, *, server: TemporalGateway, records: RecordStore) -> None:
        self._duty = duty
        self._server = server
        self._records = records

    async def state(self) -> UpkeepSchedule | None:
        handle = await self._handle()
        with self._server.translate_errors():
            try:
                return _state_of(await handle.describe())
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    return None
                raise

    async def outcome(self) -> UpkeepOutcome:
        """How the last executions went, of the few that the server remembers."""
        handle = await self._handle()
        with self._server.translate_errors():
            try:
                recent = (await handle.describe()).info.recent_actions
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    return UpkeepOutcome()
                raise
        newest_first = sorted(recent, key=lambda one: one.started_at, reverse=True)
        actions = [one.action for one in newest_first]
        # With the execution id: workflow ids contain the second, so two within one are equal.
        started = [
            (one.workflow_id, one.first_execution_run_id)
            for one in actions
            if isinstance(one, ScheduleActionExecutionStartWorkflow)
        ]
        found: UpkeepOutcome | None = None
        for id, execution in started:
            look = await self._server.look(id, execution)
            if look is None:
                continue  # its history is gone
            if found is None:
                found = await self._newest(look)
            if look.ending == "completed":
                return found.model_copy(update={"succeeded_at": look.closed_at})
        return found or UpkeepOutcome()

    async def _newest(self, look: ExecutionInfo) -> UpkeepOutcome:
        why = ""
        if look.open and look.trouble is not None:
            why = look.trouble.found
        elif not look.open and look.ending != "completed":
            why = await self._error(look)
        return UpkeepOutcome(
            failed=look.id if why else None,
            why=why,
            open=look.open,
            unfetched=look.unfetched is not None and look.unfetched.late,
            began_at=look.started_at,
        )

    async def _error(self, look: ExecutionInfo) -> str:
        client = await self._server.client()
        with self._server.translate_errors():
            try:
                await client.get_workflow_handle(look.id, run_id=look.execution).result()
            except WorkflowFailureError as error:
                return _own_words(error)
        return look.ending or ""

    async def schedule_every(self, interval: timedelta) -> UpkeepSchedule:
        """Do the duty at this interval from now on; an existing schedule is changed.

        Raises:
            InvalidInput: the interval is under a minute or over a year.
        """
        work = await self.work()
        if not SHORTEST <= interval <= LONGEST:
            raise InvalidInput(
                f"{work.refusal} every {interval.total_seconds():g} seconds.",
                cure="Give 1m to 366d, such as --every 24h.",
            )
        schedule, handle = _schedule(work, interval), await self._handle()
        with self._server.translate_errors():
            client = await self._server.client()
            try:
                await client.create_schedule(handle.id, schedule)
            except ScheduleAlreadyRunningError:
                # As a whole: this is also how a paused one is made to go on.
                await handle.update(lambda _: ScheduleUpdate(schedule=schedule))
            return _state_of(await handle.describe())

    async def delete_schedule(self) -> bool:
        """Delete the schedule; False if there is none."""
        handle = await self._handle()
        with self._server.translate_errors():
            try:
                await handle.delete()
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    return False
                raise
        return True

    async def work(self) -> _Work:
        """The workflow that is started each time."""
        installation = await self._records.installation()
        queue = loops_queue(installation)
        if self._duty == "mining":
            return _Work(
                workflow=MINING_WORKFLOW,
                id=mining_schedule_id(installation),
                given=MiningInput(queue=queue),
                summary="look for patterns",
                refusal="Patterns cannot be mined",
                at_most=LOOK_AT_MOST,
            )
        return _Work(
            workflow=COLLECTION_WORKFLOW,
            id=collection_schedule_id(installation),
            given=CollectionInput(queue=queue),
            summary="drop what is kept no longer",
            refusal="Garbage cannot be collected",
        )

    async def _handle(self) -> ScheduleHandle:
        with self._server.translate_errors():
            return (await self._server.client()).get_schedule_handle((await self.work()).id)


async def mine_now(mining: Upkeep, *, server: TemporalGateway, readiness: Readiness) -> MineReport:
    """Look for patterns once and return the report; concurrent calls share one execution.

    Raises:
        NoReadyWorker: the loops queue has no worker.
    """
    work = await mining.work()
    found = await readiness.ask(QueueState(queue=work.given.queue, serves="loops"))
    if not found.served:
        raise NoReadyWorker(
            "Nobody works on the queue that looks for patterns.",
            cure=f"Start one with {worker_command(None)}.",
        )
    with server.translate_errors():
        client = await server.client()
        return await client.execute_workflow(
            work.workflow,
            work.given,
            id=f"{work.id}-now",
            task_queue=work.given.queue,
            result_type=MineReport,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            execution_timeout=work.at_most,
            static_summary=work.summary,
        )


def _own_words(error: BaseException) -> str:
    """The message of a failed step, without the errors that Temporal wraps around it."""
    while isinstance(error, WorkflowFailureError | ActivityError) and error.__cause__ is not None:
        error = error.__cause__
    return error.message if isinstance(error, FailureError) else str(error)


def _schedule(work: _Work, interval: timedelta) -> Schedule:
    return Schedule(
        action=ScheduleActionStartWorkflow(
            work.workflow,
            work.given,
            id=work.id,
            task_queue=work.given.queue,
            execution_timeout=work.at_most,
            static_summary=work.summary,
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=interval)]),
        # Each execution looks at everything, so missed ones need not be made up for.
        policy=SchedulePolicy(
            overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(minutes=10)
        ),
    )


def _state_of(described: ScheduleDescription) -> UpkeepSchedule:
    info, intervals = described.info, described.schedule.spec.intervals
    recent = [item.scheduled_at for item in info.recent_actions]
    return UpkeepSchedule(
        id=described.id,
        every_s=intervals[0].every.total_seconds() if intervals else None,
        paused=described.schedule.state.paused,
        looks=info.num_actions,
        created_at=info.created_at,
        last_at=max(recent, default=None),
        next_at=min(info.next_action_times, default=None),
    )
