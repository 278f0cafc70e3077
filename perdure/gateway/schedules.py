"""Schedules at Temporal: create, read, pause, resume, trigger, delete.

A schedule starts what any Temporal client could start: the loop's workflow type, with the task as
JSON, on the queue of tasks. The task is a copy: later changes to the task file have no effect until
the schedule is created again from it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import TypeVar
from uuid import uuid4

from temporalio.api.schedule.v1 import SchedulePatch, TriggerImmediatelyRequest
from temporalio.api.workflowservice.v1 import PatchScheduleRequest
from temporalio.client import (
    Schedule,
    ScheduleAlreadyRunningError,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.foundation.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    PerdureError,
    Unreadable,
)
from perdure.domain.foundation.names import schedule_id, scheduled_name
from perdure.domain.foundation.problems import did_you_mean
from perdure.domain.ports import RecordStore
from perdure.domain.run.fairness import Turn
from perdure.domain.schedules.plan import SchedulePlan, month_of
from perdure.domain.schedules.status import ScheduleStatus, Triggered
from perdure.domain.schedules.store import ScheduleStore, StoredSchedule, UnreadableSchedule
from perdure.domain.specs import RUN_SPEC
from perdure.gateway.claim_run_id import require_unreserved
from perdure.gateway.schedule_spec import (
    came_of,
    next_starts,
    open_runs,
    recent_runs,
    task_payload,
    temporal_schedule,
    with_recent,
)
from perdure.gateway.start import Starter
from perdure.gateway.temporal_gateway import TemporalGateway

T = TypeVar("T")
# In bytes, as the server keeps it: whole, so well below the 2 MiB that it takes.
LONGEST_TASK = 200_000
LOOKS, LOOK_PAUSE_S = 40, 0.25
OWN_SECOND_LOOKS, OWN_SECOND_PAUSE_S = 24, 0.05
MISSING = "The server has no such schedule any more, so it starts nothing."
_PAUSE_NOTE = "paused with perdure"
_RESUME_NOTE = "taken up again with perdure"


@dataclass(frozen=True)
class Schedules:
    """The schedules of one installation.

    Every method raises `NotFound` for an unknown schedule and `ServiceUnavailable` if the server
    does not answer.

    Args:
        store: plans and their monthly spend.
        server: the connection to Temporal.
        starter: checks whether the task can be run here.
        records: has the id of the installation.
        task_queue: the queue on which runs are started with only a task.
        now: the clock.
    """

    store: ScheduleStore
    _: KW_ONLY
    server: TemporalGateway
    starter: Starter
    records: RecordStore
    task_queue: str
    now: Callable[[], datetime]

    async def create(
        self,
        plan: SchedulePlan,
        *,
        paused: bool = False,
        replace: bool = False,
        noted: Callable[[], Awaitable[None]] | None = None,
    ) -> ScheduleStatus:
        """Create a schedule; creating the same schedule again changes nothing.

        With `replace`, an existing schedule of that name is changed: its runs go on, its spend is
        kept, and it stays paused if it was. `noted` notes whose runs they are, before the first.

        Raises:
            InvalidInput: the task cannot be run here, or the times never come.
            Conflict: there is another schedule of that name, or somebody else changed it meanwhile.
            NotFound: somebody else deleted it meanwhile.
        """
        require_unreserved(plan.name)
        new = await self._made(plan, paused=paused)
        known = await self.store.get(plan.name)
        if known is not None and known.deleted_at is None and not replace and known.plan != plan:
            raise Conflict(
                f"There is another schedule {plan.name}.",
                cure="Choose another name, or change it with --replace.",
            )
        former = await self._at_server(plan.name)
        if noted is not None:
            await noted()
        # Write the row first: of several at once, it says whose schedule the server is to have.
        # After a crash in between, the list tells what the server lacks; the same command makes it.
        if not await self.store.put(plan, at=self.now(), replace=replace):
            raise Conflict(
                f"Somebody else has just made a schedule {plan.name}.",
                cure="Look at it: `perdure schedule list`.",
            )
        try:
            await self._send(plan.name, new)
            await self._require_times(plan, former=former)
        except InvalidInput:
            await self.store.take_back(plan, former=known)
            raise
        await self._as_its_row(plan)
        return await self.status(plan.name)

    async def list(self) -> Sequence[ScheduleStatus]:
        """All schedules by name; `unreadable` names those that are passed over."""
        stored = [one for one in await self.store.list() if isinstance(one, StoredSchedule)]
        return await asyncio.gather(*(self._status(one) for one in stored))

    async def unreadable(self) -> Sequence[UnreadableSchedule]:
        """Schedules whose rows this version cannot read."""
        return [one for one in await self.store.list() if isinstance(one, UnreadableSchedule)]

    async def unknown(self) -> Sequence[str]:
        """Names of schedules that only the server has, as after a restore of an older backup."""
        known = {one.name for one in await self.store.list()}
        client, installation = await self.server.client(), await self.records.installation()
        with self.server.translate_errors():
            ids = [one.id async for one in await client.list_schedules()]
        names = {name for one in ids if (name := scheduled_name(one, installation)) is not None}
        return sorted(names - known)

    async def status(self, name: str) -> ScheduleStatus:
        return await self._status(await self._stored(name))

    async def pause(self, name: str, *, note: str = "") -> ScheduleStatus:
        """Start nothing until it is resumed; open runs go on."""
        handle = await self._handle((await self._stored(name)).plan.name)
        with self.server.translate_errors():
            await _of(name, handle.pause(note=note or _PAUSE_NOTE))
        return await self.status(name)

    async def resume(self, name: str, *, note: str = "") -> ScheduleStatus:
        """Start its task on schedule again; starts that were missed meanwhile are not made up."""
        handle = await self._handle((await self._stored(name)).plan.name)
        with self.server.translate_errors():
            await _of(name, handle.unpause(note=note or _RESUME_NOTE))
        return await self.status(name)

    async def trigger(self, name: str, *, request: str | None = None) -> Triggered:
        """Start its task once, now, even if it is paused; its overlap policy applies.

        The server does a `request` once, however often it is sent.
        """
        handle = await self._handle((await self._stored(name)).plan.name)
        with self.server.translate_errors():
            before = await _of(name, handle.describe())
            await self._own_second(before)
            client = await self.server.client()
            # The client's own method takes no id of the request.
            await client.workflow_service.patch_schedule(
                PatchScheduleRequest(
                    namespace=client.namespace,
                    schedule_id=handle.id,
                    patch=SchedulePatch(trigger_immediately=TriggerImmediatelyRequest()),
                    identity=client.identity,
                    request_id=request or uuid4().hex,
                )
            )
            for _ in range(LOOKS):
                described = await handle.describe()
                if (found := came_of(name, before, described)) is not None:
                    return found
                await asyncio.sleep(LOOK_PAUSE_S)
        return Triggered(schedule=name, why="the server has taken it, and not said yet what came")

    async def _own_second(self, before: ScheduleDescription) -> None:
        """Wait until the second of its last start is over.

        The server makes the id of a run from the second of its start, so two starts within one
        would share an id, and the run that is open or came last would stand for both.
        """
        # The end of such an id is that second, as in 2026-01-02T03:04:05Z.
        last = max((run[-20:] for run in recent_runs(before).values()), default="")
        for _ in range(OWN_SECOND_LOOKS):  # bounded, as the server's clock may be ahead of ours
            if f"{self.now():%Y-%m-%dT%H:%M:%SZ}" > last:
                return
            await asyncio.sleep(OWN_SECOND_PAUSE_S)

    async def delete(self, name: str) -> None:
        """Delete a schedule, also one that cannot be read or that only the server has.

        Its runs stay, and open ones go on.
        """
        try:
            with suppress(Unreadable):
                await self._stored(name)
        except NotFound:
            if await self._at_server(name) is None:
                raise
        # At the server first: without its row, nobody would know what goes on to start runs there.
        await self._drop(name)
        await self.store.mark_deleted(name, at=self.now())

    async def _made(self, plan: SchedulePlan, *, paused: bool = False) -> Schedule:
        """What the server is to have of a plan.

        Raises:
            InvalidInput: the task is too long, or cannot be run here.
        """
        task = await task_payload(plan, await self.server.client())
        if (size := task.ByteSize()) > LONGEST_TASK:
            raise InvalidInput(
                f"The task of a schedule has {size} bytes; {LONGEST_TASK} are allowed.",
                cure="Put long texts into files that the task names.",
            )
        spec = await self.starter.resolved(
            RUN_SPEC.validate_python(plan.task), await self.starter.served(ask=False)
        )
        return temporal_schedule(
            plan,
            task,
            task_queue=self.task_queue,
            turn=self.starter.turn(spec) or Turn(),
            state=ScheduleState(paused=paused, note=_PAUSE_NOTE if paused else None),
        )

    async def _at_server(self, name: str) -> Schedule | None:
        """The server's schedule of that name."""
        handle = await self._handle(name)
        with self.server.translate_errors():
            try:
                return (await handle.describe()).schedule
            except RPCError as error:
                if error.status != RPCStatusCode.NOT_FOUND:
                    raise
        return None

    async def _send(self, name: str, new: Schedule) -> None:
        """Make or change the server's schedule; one that is paused stays so."""
        handle, asked = await self._handle(name), new.state

        def changed(seen: ScheduleUpdateInput) -> ScheduleUpdate:
            new.state = seen.description.schedule.state
            if asked.paused and not new.state.paused:
                new.state.paused, new.state.note = True, asked.note
            return ScheduleUpdate(schedule=new)

        with self.server.translate_errors():
            client = await self.server.client()
            try:
                await client.create_schedule(handle.id, new)
            except ScheduleAlreadyRunningError:
                await handle.update(changed)

    async def _require_times(self, plan: SchedulePlan, *, former: Schedule | None) -> None:
        """Bring the server's schedule back to what it was if its times never come.

        Raises:
            InvalidInput: they never come.
        """
        handle = await self._handle(plan.name)
        with self.server.translate_errors():
            # Only the server works out when they come, so it has to have them first.
            if next_starts(await handle.describe()):
                return
            if former is None:
                await handle.delete()
            else:
                back = ScheduleUpdate(schedule=former)
                await handle.update(lambda _: back)
        raise InvalidInput(
            f"The times {', '.join(plan.times.cron)} never come.", cure="Correct the expression."
        )

    async def _as_its_row(self, plan: SchedulePlan) -> None:
        """Give the server what the row says now, if somebody else changed the row meanwhile.

        Raises:
            Conflict: it is another schedule now.
            NotFound: it was deleted.
        """
        row = await self.store.get(plan.name)
        if row is None or row.deleted_at is not None:
            await self._drop(plan.name)
        elif row.plan != plan:
            await self._send(plan.name, await self._made(row.plan))
            raise Conflict(
                f"Somebody else has just changed the schedule {plan.name}.",
                cure="Look at it: `perdure schedule list`.",
            )

    async def _drop(self, name: str) -> None:
        """Delete the server's schedule, if there is one."""
        handle = await self._handle(name)
        with self.server.translate_errors():
            try:
                await handle.delete()
            except RPCError as error:
                if error.status != RPCStatusCode.NOT_FOUND:
                    raise

    async def _stored(self, name: str) -> StoredSchedule:
        found = await self.store.get(name)
        if found is None or found.deleted_at is not None:
            hint = did_you_mean(name, [one.name for one in await self.store.list()])
            raise NotFound(f"There is no schedule {name!r}.{hint}", cure="perdure schedule list")
        return found

    async def _handle(self, name: str) -> ScheduleHandle:
        client = await self.server.client()
        return client.get_schedule_handle(schedule_id(await self.records.installation(), name))

    async def _status(self, stored: StoredSchedule) -> ScheduleStatus:
        name, now = stored.plan.name, self.now()
        described, problem = await self._described(name)
        began, _ = month_of(now, stored.plan.times.zone)
        told = ScheduleStatus(
            plan=stored.plan,
            state="missing",
            created_at=stored.created_at,
            changed_at=stored.changed_at,
            starts=tuple(await self.store.starts(name)),
            month=await self.store.spend(name, at=now),
            month_began=began,
            refused=await self.store.refusals(name, at=now),
            problem=problem,
        )
        if described is None:
            return told
        state, info = described.schedule.state, described.info
        return told.model_copy(
            update={
                "state": "paused" if state.paused else "active",
                "note": state.note or "",
                "next_at": () if state.paused else next_starts(described),
                "running": open_runs(described),
                "starts": with_recent(told.starts, described),
                "started": info.num_actions,
                "skipped": info.num_actions_skipped_overlap,
                "missed": info.num_actions_missed_catchup_window,
            }
        )

    async def _described(self, name: str) -> tuple[ScheduleDescription | None, str]:
        """The server's description of a schedule, or None with the reason."""
        try:
            handle = await self._handle(name)
            with self.server.translate_errors():
                return await handle.describe(), ""
        except PerdureError as error:
            if isinstance(error.__cause__, RPCError) and (
                error.__cause__.status == RPCStatusCode.NOT_FOUND
            ):
                return None, MISSING
            return None, error.message


async def _of(name: str, asked: Awaitable[T]) -> T:
    """Await a request about a schedule; raises `NotFound` if the server does not know it."""
    try:
        return await asked
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        raise NotFound(
            f"{name}: {MISSING}",
            cure=f"Make it anew with `perdure schedule create {name} … --replace`, or delete it.",
        ) from None
