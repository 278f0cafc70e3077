"""Several who make, change or delete one schedule at once: row and server say the same after."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Literal

import pytest
from installation import Installation
from scheduled import plan, schedules
from temporalio.client import ScheduleActionStartWorkflow, ScheduleOverlapPolicy
from temporalio.service import RPCError

from perdure.domain.foundation.errors import Conflict, InvalidInput, NotFound
from perdure.domain.foundation.names import schedule_id
from perdure.domain.schedules.plan import Overlap, SchedulePlan, Times
from perdure.gateway.schedules import MISSING, Schedules

When = Literal["before", "after"]
LATER: Overlap = "allow_all"


def meanwhile(site: Installation, when: When, other: Callable[[], Awaitable[object]]) -> Schedules:
    """A door to schedules that another overtakes, just before or after it writes its row."""
    ours = schedules(site)
    put = ours.store.put

    async def overtaken(plan: SchedulePlan, *, at: datetime, replace: bool) -> bool:
        if when == "before":
            await other()
        kept = await put(plan, at=at, replace=replace)
        if when == "after":
            await other()
        return kept

    ours.store.put = overtaken  # type: ignore[method-assign]
    return ours


async def at_server(site: Installation, name: str) -> tuple[str, ScheduleOverlapPolicy]:
    """The goal that the server's schedule starts, and its policy."""
    installation = await site.parts.stores.records.installation()
    handle = site.client.get_schedule_handle(schedule_id(installation, name))
    found = (await handle.describe()).schedule
    assert isinstance(found.action, ScheduleActionStartWorkflow)
    (task,) = await site.client.data_converter.decode(found.action.args)  # type: ignore[arg-type]
    return task["goal"], found.policy.overlap


async def two(site: Installation) -> tuple[SchedulePlan, SchedulePlan]:
    """Two schedules of one name."""
    one = await plan(site)
    changes = {"overlap": LATER, "task": {**one.task, "goal": "Name a tree."}}
    return one, one.model_copy(update=changes)


async def test_of_two_who_make_it_the_server_has_that_of_the_row(bare: Installation) -> None:
    first, second = await two(bare)
    early, late = asyncio.Event(), asyncio.Event()
    ours, theirs = schedules(bare), schedules(bare)
    keep = ours.store.put

    async def put_early(plan: SchedulePlan, *, at: datetime, replace: bool) -> bool:
        early.set()
        await late.wait()
        return await keep(plan, at=at, replace=replace)

    async def put_late(plan: SchedulePlan, *, at: datetime, replace: bool) -> bool:
        late.set()
        await made
        return await keep(plan, at=at, replace=replace)

    ours.store.put = put_early  # type: ignore[method-assign]
    theirs.store.put = put_late  # type: ignore[method-assign]
    made = asyncio.create_task(ours.create(first))
    await early.wait()
    with pytest.raises(Conflict, match="Somebody else has just made"):
        await theirs.create(second)
    assert (await schedules(bare).status(first.name)).plan == first
    assert await at_server(bare, first.name) == (first.goal, ScheduleOverlapPolicy.SKIP)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_of_two_changes_the_server_has_that_of_the_row(
    bare: Installation, when: When
) -> None:
    first, second = await two(bare)
    await schedules(bare).create(first.model_copy(update={"catch_up_s": 60}))

    async def other() -> None:
        await schedules(bare).create(second, replace=True)

    door = meanwhile(bare, when, other)
    if when == "before":
        await door.create(first, replace=True)
    else:
        with pytest.raises(Conflict, match="Somebody else has just changed"):
            await door.create(first, replace=True)
    row = (await schedules(bare).status(first.name)).plan
    assert row == (first if when == "before" else second)
    policy = ScheduleOverlapPolicy.SKIP if row == first else ScheduleOverlapPolicy.ALLOW_ALL
    assert await at_server(bare, first.name) == (row.goal, policy)


async def test_one_that_is_deleted_while_it_is_made_is_gone_at_the_server(
    bare: Installation,
) -> None:
    wanted = await plan(bare)
    door = meanwhile(bare, "after", lambda: schedules(bare).delete(wanted.name))
    with pytest.raises(NotFound, match="There is no schedule"):
        await door.create(wanted)
    with pytest.raises(RPCError, match="not found"):
        await at_server(bare, wanted.name)


async def test_what_a_killed_door_left_is_told_and_made_by_the_same_command(
    bare: Installation,
) -> None:
    wanted = await plan(bare)

    async def killed() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await meanwhile(bare, "after", killed).create(wanted)
    (told,) = [one for one in await schedules(bare).list() if one.plan == wanted]
    assert (told.state, told.problem) == ("missing", MISSING)
    assert (await schedules(bare).create(wanted)).state == "active"


async def test_bad_times_bring_back_the_whole_row(bare: Installation) -> None:
    wanted = await plan(bare)
    before = await schedules(bare).create(wanted)
    never = wanted.model_copy(update={"times": Times(cron=("0 0 31 2 *",))})
    with pytest.raises(InvalidInput, match="never come"):
        await schedules(bare).create(never, replace=True)
    after = await schedules(bare).status(wanted.name)
    assert (after.plan, after.changed_at) == (wanted, before.changed_at)
    await schedules(bare).delete(wanted.name)
    with pytest.raises(InvalidInput, match="never come"):
        await schedules(bare).create(never)
    row = await schedules(bare).store.get(wanted.name)
    assert row is not None
    assert (row.plan, row.deleted_at is None) == (wanted, False), "deleted, as it was"
