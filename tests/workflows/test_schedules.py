"""Schedules on a real server: what the clock starts, what a month pays for, what is refused."""

import json
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest
from attempts import attempt
from holding import HELD, Holding
from inline_snapshot import snapshot
from installation import Installation
from listed import listed
from temporalio.client import Schedule, ScheduleActionStartWorkflow, ScheduleSpec
from temporalio.service import RPCError
from waiting import eventually

from perdure.domain.foundation.errors import Conflict, InvalidInput, NotAllowed, NotFound
from perdure.domain.foundation.names import loops_queue, schedule_id
from perdure.domain.llm.usage import Usage
from perdure.domain.run.messages import Retry
from perdure.domain.run.result import RunResult
from perdure.domain.schedules.plan import MonthlyBudget, Overlap, SchedulePlan, Times
from perdure.domain.specs import RUN_SPEC
from perdure.gateway import admission
from perdure.gateway.schedules import Schedules
from tests.adapters.test_notifiers import Receiver, receiver

__all__ = ["receiver"]
USAGE = {"input_tokens": 1_000, "output_tokens": 1_000}
HOURLY = Times(every_s=3_600)


def schedules(site: Installation) -> Schedules:
    return site.gateway.schedules(site.parts.stores.schedules())


async def plan(site: Installation, **changes: object) -> SchedulePlan:
    """A schedule of an agent that answers once."""
    model = await site.script({"replies": [{"text": "An apple.", "usage": USAGE}]})
    spec = RUN_SPEC.validate_python(
        {
            "kind": "agent",
            "goal": "Name a fruit.",
            "models": {"executor": model},
            "learn": False,
        }
    )
    fields: dict[str, object] = {
        "name": f"fruit-{uuid.uuid4().hex[:6]}",
        "kind": "agent",
        "task": spec.model_dump(mode="json", by_alias=True),
        "times": HOURLY,
    }
    return SchedulePlan.model_validate(fields | changes)


async def own_second(site: Installation, name: str) -> None:
    """Starts of one second have one id, and are one run."""
    starts = (await schedules(site).status(name)).starts
    last = max((start.run[-20:] for start in starts), default="")
    await eventually(lambda: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}" > last)


async def triggered(site: Installation, name: str) -> RunResult:
    """The result of a start by hand."""
    await own_second(site, name)
    found = await schedules(site).trigger(name)
    assert found.run is not None, found
    return await site.gateway.result(found.run)


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


KEEP = "import pathlib, sys; pathlib.Path(sys.argv[1]).open('a').write(sys.stdin.read() + '\\n')"


async def test_the_month_limits_its_runs_and_refuses_in_words(
    bare: Installation, tmp_path: Path
) -> None:
    site, notices = bare, tmp_path / "notices"
    wanted = await plan(site, month=MonthlyBudget(tokens=10_000))
    command = json.dumps([sys.executable, "-c", KEEP, str(notices)])
    async with site.worker(notify_command=command):
        await schedules(site).create(wanted)
        first = await triggered(site, wanted.name)
        assert (first.outcome, first.spend.tokens) == ("accepted", 2_000)
        row = await site.status(first.id)
        assert row.budget is not None
        assert row.budget.limits.tokens == 10_000, "what the month left of its own 200,000"
        # Whatever the journal says its runs have spent, whoever asked for it.
        await _spend(site, first.id, 8_000)
        refused = await triggered(site, wanted.name)
        # A raised budget takes effect at once.
        raised = wanted.model_copy(update={"month": MonthlyBudget(tokens=50_000)})
        await schedules(site).create(raised, replace=True)
        assert (await triggered(site, wanted.name)).outcome == "accepted"
    assert (refused.outcome, refused.reason, refused.spend.tokens) == ("failed", "month_spent", 0)
    words = f"The schedule {wanted.name} does not start this run"
    assert words in refused.explanation
    assert "10000 of 10000 tokens of this month are spent" in refused.explanation
    assert "--month-usd USD --replace" in refused.explanation
    stands = await schedules(site).status(wanted.name)
    assert stands.refused == 1
    assert [one.run for one in stands.starts if one.refused] == [refused.id]

    async def shown() -> bool:
        return refused.id in await listed(site.gateway)

    await eventually(shown)
    (notice,) = [json.loads(line) for line in notices.read_text().splitlines()]
    assert notice["run"] == refused.id
    assert words in notice["text"]
    with pytest.raises(NotAllowed):
        await site.gateway.verb(refused.id, Retry())


async def _spend(site: Installation, run: str, tokens: int) -> None:
    """Book a call of a run, whoever made it."""
    more = attempt(key=f"more/{tokens}", run=run).model_copy(update={"root": run})
    await site.parts.stores.journal.begin(more)
    await site.parts.stores.journal.answer(
        more, usage=Usage(output_tokens=tokens), cost_usd=None, reply="r", seconds=1.0
    )


async def test_a_refusal_that_no_channel_took_is_told_again(
    bare: Installation, receiver: Receiver
) -> None:
    """Though its run has ended: that it was refused is what people are to know."""
    site, receiver.status = bare, 503
    wanted = await plan(site, month=MonthlyBudget(tokens=10_000))
    async with site.worker(notify_webhook=receiver.url):
        await schedules(site).create(wanted)
        await _spend(site, (await triggered(site, wanted.name)).id, 10_000)
        refused = await triggered(site, wanted.name)
        assert refused.reason == "month_spent"
        kept = site.parts.stores.notices()
        (notice,) = await kept.notices()
        assert (notice.run, notice.state) == (refused.id, "waiting")
        assert "answered 503" in str(notice.problem)
        receiver.status = 200
        await kept.settle(notice.model_copy(update={"due_at": datetime.now(UTC)}))

        async def delivered() -> bool:
            (found,) = await kept.notices()
            return found.state == "delivered"

        await eventually(delivered)
    ids = {headers["idempotency-key"] for _, headers, _ in receiver.came}
    assert ids == {f"{refused.id}//0"}
    assert f"The schedule {wanted.name} does not start" in receiver.came[-1][2].decode()


async def test_above_the_limit_of_open_runs_a_start_is_refused_and_told(
    bare: Installation, receiver: Receiver, holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "SHARED_S", 0.0)
    site = bare
    wanted = await plan(site, overlap="allow_all")
    model = await site.script({"replies": [HELD_TEXT]})
    limits: dict[str, object] = {"max_open_runs": 1, "above_max_open_runs": "refuse"}
    async with site.worker(notify_webhook=receiver.url, **limits):
        await schedules(site).create(wanted)
        open_run = await site.start(
            {"kind": "agent", "goal": "hold", "learn": False, "models": {"executor": model}}
        )
        await holding.begun()
        await _counted(site, 1)
        refused = await triggered(site, wanted.name)
        holding.release()
        await site.gateway.result(open_run)
        await _counted(site, 0)
        assert (await triggered(site, wanted.name)).outcome == "accepted"
    assert (refused.outcome, refused.reason, refused.spend.tokens) == ("failed", "no_room", 0)
    words = f"The schedule {wanted.name} does not start this run: 1 of 1 runs are open"
    assert words in refused.explanation
    (notice,) = [body.decode() for _, _, body in receiver.came]
    assert words in notice


async def test_above_the_limit_of_open_runs_a_start_waits_for_room(
    bare: Installation, holding: Holding
) -> None:
    site = bare
    wanted = await plan(site)
    model = await site.script({"replies": [HELD_TEXT]})
    async with site.worker(max_open_runs=1):
        await schedules(site).create(wanted)
        open_run = await site.start(
            {"kind": "agent", "goal": "hold", "learn": False, "models": {"executor": model}}
        )
        await holding.begun()
        await _counted(site, 1)
        found = await schedules(site).trigger(wanted.name)
        assert found.run is not None
        run = found.run

        async def waits() -> bool:
            described = await site.handle(run).describe()
            pending = described.raw_description.pending_activities
            return any("starts this run when there is room" in str(one) for one in pending)

        await eventually(waits)
        assert (await schedules(site).status(wanted.name)).month.holding == 0
        holding.release()
        await site.gateway.result(open_run)
        assert (await site.gateway.result(run)).outcome == "accepted"


async def _counted(site: Installation, number: int) -> None:
    """Wait until the index of the server says that so many runs are open."""
    queue = loops_queue(await site.parts.stores.records.installation())
    query = f"{admission.OPEN_ROOTS} AND TaskQueue = '{queue}'"

    async def told() -> bool:
        return (await site.client.count_workflows(query)).count == number

    await eventually(told)


HELD_TEXT = {"text": "An apple.", "usage": USAGE, "delay_s": HELD}


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
    await own_second(site, wanted.name)
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
    await own_second(site, wanted.name)
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
    assert (await schedules(site).create(changed, replace=True)).state == "paused"


BAD = {
    "no expression": ("tomorrow", "CronString does not have 5-7 fields"),
    "a minute that is none": ("61 9 * * *", "Minute"),
    "too few fields": ("0 9 *", "CronString"),
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


@pytest.mark.long
async def test_the_clock_starts_it(site: Installation) -> None:
    """Once a minute, which is the shortest interval."""
    wanted = await plan(site, times=Times(every_s=60))
    await schedules(site).create(wanted)

    async def came() -> bool:
        return bool((await schedules(site).status(wanted.name)).starts)

    await eventually(came, seconds=150)
    stands = await schedules(site).status(wanted.name)
    await schedules(site).delete(wanted.name)
    assert stands.starts[0].run.startswith(wanted.name)
