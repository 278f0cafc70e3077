"""Schedules on a real server: what the clock starts, and what becomes of a schedule."""

import uuid
from datetime import UTC, datetime

import pytest
from holding import Holding
from inline_snapshot import snapshot
from installation import Installation
from listed import listed
from scheduled import HELD_TEXT, plan, schedules, triggered
from temporalio.client import Schedule, ScheduleActionStartWorkflow, ScheduleSpec
from temporalio.service import RPCError
from waiting import eventually

from perdure.domain.foundation.errors import Conflict, InvalidInput, NotFound
from perdure.domain.foundation.names import schedule_id
from perdure.domain.schedules.plan import Overlap, Times
from perdure.gateway.schedule_spec import recent_runs


async def test_a_schedule_starts_its_task_as_a_run(site: Installation) -> None:
    wanted = await plan(site)
    status = await schedules(site).create(wanted)
    assert (status.state, status.plan, status.started) == ("active", wanted, 0)
    assert status.next_at == tuple(sorted(status.next_at))
    assert len(status.next_at) == 5
    result = await triggered(site, wanted.name)
    assert (result.outcome, result.output) == ("accepted", "An apple.")
    assert result.id.startswith(f"{wanted.name}-20")
    stands = await schedules(site).status(wanted.name)
    assert [start.run for start in stands.starts] == [result.id]
    assert (stands.started, stands.month.tokens, stands.month.holding) == (1, 2_000, 0)


async def test_while_a_run_is_open_its_policy_counts(site: Installation, holding: Holding) -> None:
    model = await site.script({"replies": [HELD_TEXT]})
    wanted = await plan(
        site, task={"kind": "agent", "goal": "Name a fruit.", "models": {"executor": model}}
    )
    await schedules(site).create(wanted)
    first = await schedules(site).trigger(wanted.name)
    await holding.begun()
    assert first.run is not None
    again = await schedules(site).trigger(wanted.name)
    assert (again.run, again.why) == (None, f"skipped, as {first.run} is open")
    stands = await schedules(site).status(wanted.name)
    assert (stands.running, stands.skipped) == ((first.run,), 1)
    assert stands.month.holding == 1

    changed = wanted.model_copy(update={"overlap": "buffer_one"})
    await schedules(site).create(changed, replace=True)
    waits = await schedules(site).trigger(wanted.name)
    assert (waits.run, waits.why) == (None, f"waits until {first.run} ends")
    holding.release()
    assert (await site.gateway.result(first.run)).outcome == "accepted"

    async def second_came() -> bool:
        return len((await schedules(site).status(wanted.name)).starts) == 2

    await eventually(second_came)


async def test_the_open_run_is_stopped_with_its_best_where_that_is_the_policy(
    site: Installation, holding: Holding
) -> None:
    model = await site.script({"replies": [HELD_TEXT]})
    overlap: Overlap = "cancel_other"
    task = {"kind": "agent", "goal": "Name a fruit.", "models": {"executor": model}}
    wanted = await plan(site, task=task, overlap=overlap)
    await schedules(site).create(wanted)
    first = await schedules(site).trigger(wanted.name)
    await holding.begun()
    assert first.run is not None
    found = await schedules(site).trigger(wanted.name)
    holding.release()
    assert (await site.gateway.result(first.run)).outcome == "stopped"
    assert found.run != first.run


async def test_a_paused_schedule_starts_nothing_but_by_hand(site: Installation) -> None:
    wanted = await plan(site)
    made = await schedules(site).create(wanted, paused=True)
    assert (made.state, made.next_at) == ("paused", ())
    assert (await triggered(site, wanted.name)).outcome == "accepted"
    going = await schedules(site).resume(wanted.name, note="the month began")
    assert (going.state, going.note) == ("active", "the month began")
    assert going.next_at
    held = await schedules(site).pause(wanted.name, note="on holiday")
    assert (held.state, held.note, held.next_at) == ("paused", "on holiday", ())
    changed = wanted.model_copy(update={"overlap": "allow_all"})
    for paused in (False, True):
        kept = await schedules(site).create(changed, replace=True, paused=paused)
        assert (kept.state, kept.note) == ("paused", "on holiday")
    await schedules(site).resume(wanted.name, note="back")
    anew = await schedules(site).create(wanted, replace=True, paused=True)
    assert (anew.state, anew.note) == ("paused", made.note)


BAD = {
    "a minute that is none": ("61 9 * * *", "Minute"),
    "a time that never comes": ("0 0 31 2 *", "never come"),
}


@pytest.mark.parametrize(("cron", "words"), BAD.values(), ids=BAD.keys())
async def test_times_that_the_server_does_not_take_leave_nothing(
    bare: Installation, cron: str, words: str
) -> None:
    wanted = await plan(bare, times=Times(cron=(cron,)))
    with pytest.raises(InvalidInput, match=words):
        await schedules(bare).create(wanted)
    assert await schedules(bare).list() == []
    with pytest.raises(RPCError, match="not found"):
        await described(bare, wanted.name)


async def test_bad_times_leave_the_schedule_as_it_was(bare: Installation) -> None:
    wanted = await plan(bare)
    before = await schedules(bare).create(wanted)
    worse = wanted.model_copy(update={"times": Times(cron=("0 0 31 2 *",))})
    with pytest.raises(InvalidInput, match="never come"):
        await schedules(bare).create(worse, replace=True)
    after = await schedules(bare).status(wanted.name)
    assert (after.plan, after.next_at) == (wanted, before.next_at)


async def described(site: Installation, name: str) -> object:
    installation = await site.parts.stores.records.installation()
    return await site.client.get_schedule_handle(schedule_id(installation, name)).describe()


async def test_daylight_saving_time_is_that_of_the_zone(bare: Installation) -> None:
    """On 28 March 2027 it is never 02:30 in Berlin, and on 31 October twice."""
    times = Times(cron=("30 2 28 3 *", "30 2 31 10 *", "0 9 29 3 *"), time_zone="Europe/Berlin")
    made = await schedules(bare).create(await plan(bare, times=times))
    found = [one for one in made.next_at if one.year == 2027]
    assert found == snapshot(
        [
            datetime(2027, 3, 29, hour=7, tzinfo=UTC),
            datetime(2027, 10, 31, hour=1, minute=30, tzinfo=UTC),
        ]
    )


async def test_one_that_the_server_lost_is_told_and_made_again(site: Installation) -> None:
    wanted = await plan(site)
    await schedules(site).create(wanted)
    installation = await site.parts.stores.records.installation()
    await site.client.get_schedule_handle(schedule_id(installation, wanted.name)).delete()

    async def lost() -> bool:
        return (await schedules(site).status(wanted.name)).state == "missing"

    await eventually(lost)
    (listed_one,) = [one for one in await schedules(site).list() if one.plan == wanted]
    assert listed_one.problem.startswith("The server has no such schedule any more")
    with pytest.raises(NotFound, match="no such schedule"):
        await schedules(site).trigger(wanted.name)
    assert (await schedules(site).create(wanted)).state == "active"
    assert (await triggered(site, wanted.name)).outcome == "accepted"


@pytest.mark.parametrize("again", [True, False], ids=["made again", "deleted"])
async def test_one_that_the_store_lost_starts_nothing_without_its_limits(
    site: Installation, again: bool
) -> None:
    """The restored backup is older than the schedule."""
    wanted = await plan(site)
    await schedules(site).create(wanted)
    await site.parts.stores.schedules().take_back(wanted, former=None)

    async def unknown() -> bool:
        return wanted.name in await schedules(site).unknown()

    await eventually(unknown)
    installation = await site.parts.stores.records.installation()
    handle = site.client.get_schedule_handle(schedule_id(installation, wanted.name))
    await handle.trigger()

    async def started() -> list[str]:
        return list(recent_runs(await handle.describe()).values())

    await eventually(started)
    (run,) = await started()
    refused = await site.gateway.result(run)
    assert (refused.outcome, refused.reason, refused.spend.tokens) == ("failed", "invalid_task", 0)
    assert f"The database does not know the schedule {wanted.name}" in refused.explanation
    if again:
        await schedules(site).create(wanted)
        assert (await triggered(site, wanted.name)).outcome == "accepted"
    else:
        await schedules(site).delete(wanted.name)
        with pytest.raises(NotFound):
            await schedules(site).delete(wanted.name)


async def test_a_deleted_schedule_is_gone_and_its_runs_stay(site: Installation) -> None:
    wanted = await plan(site)
    await schedules(site).create(wanted)
    run = await triggered(site, wanted.name)
    await schedules(site).delete(wanted.name)
    for asked in (schedules(site).status, schedules(site).trigger, schedules(site).delete):
        with pytest.raises(NotFound, match=f"There is no schedule '{wanted.name}'"):
            await asked(wanted.name)
    assert (await site.gateway.result(run.id)).output == "An apple."
    assert wanted not in [one.plan for one in await schedules(site).list()]


async def test_another_schedule_of_that_name_is_refused(bare: Installation) -> None:
    wanted = await plan(bare)
    await schedules(bare).create(wanted)
    assert (await schedules(bare).create(wanted)).plan == wanted, "the same again"
    with pytest.raises(Conflict, match="There is another schedule"):
        await schedules(bare).create(wanted.model_copy(update={"overlap": "allow_all"}))


UNFIT: dict[str, tuple[dict[str, object], str]] = {
    "too long": ({"context": {"text": "x" * 200_000}}, "200000 are allowed"),
    "too long in bytes, not in characters": ({"goal": "水" * 70_000}, "200000 are allowed"),
    "an unknown model": ({"models": {"executor": "gpt-0"}}, "gpt-0"),
}


@pytest.mark.parametrize(("fields", "words"), UNFIT.values(), ids=UNFIT.keys())
async def test_a_task_that_cannot_run_is_not_scheduled(
    bare: Installation, fields: dict[str, object], words: str
) -> None:
    wanted = await plan(bare)
    changed = wanted.model_copy(update={"task": {**wanted.task, **fields}})
    with pytest.raises(InvalidInput, match=words):
        await schedules(bare).create(changed)
    assert await schedules(bare).list() == []


async def test_a_schedule_of_somebody_else_is_not_counted(site: Installation) -> None:
    wanted = await plan(site)
    other = f"theirs-{uuid.uuid4().hex[:6]}"
    action = ScheduleActionStartWorkflow(
        "AgentLoop", wanted.task, id=other, task_queue=site.settings.task_queue
    )
    handle = await site.client.create_schedule(
        other, Schedule(action=action, spec=ScheduleSpec()), trigger_immediately=True
    )

    async def came() -> bool:
        return any(run.startswith(other) for run in await listed(site.gateway))

    await eventually(came)
    await handle.delete()
    assert await site.parts.stores.schedules().starts(other) == []


@pytest.mark.slow
async def test_the_clock_starts_it(site: Installation) -> None:
    """Once a minute, which is the shortest interval."""
    wanted = await plan(site, times=Times(every_s=60))
    await schedules(site).create(wanted)

    async def came() -> bool:
        return bool((await schedules(site).status(wanted.name)).starts)

    await eventually(came)
    stands = await schedules(site).status(wanted.name)
    await schedules(site).delete(wanted.name)
    assert stands.starts[0].run.startswith(wanted.name)
