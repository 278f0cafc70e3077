"""Erasing runs on a real server: content goes, what others need stays, sums stay right."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import cast

import pytest
from installation import Installation
from remembering import episode
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    DeleteWorkflowExecutionRequest,
    ResetWorkflowExecutionRequest,
)
from waiting import eventually

from perdure.domain.budget.spend_report import Period, SpendKey
from perdure.domain.foundation.errors import (
    InvalidInput,
    NotAllowed,
    NotFound,
    PerdureError,
    ServiceUnavailable,
)
from perdure.domain.memory.entries import Learning, Origin
from perdure.domain.ports import RecordStore
from perdure.domain.retention.erasure import Tombstone
from perdure.domain.retention.rules import read_rules
from perdure.domain.run.messages import Retry, Stop
from perdure.domain.run.status import StoredRun
from perdure.interfaces.gateways import RunGateway
from perdure.interfaces.services import Collected
from perdure.operations.erase import Eraser
from perdure.operations.expiry import MOST_NAMED, Expired, expire, stone_of
from perdure.operations.gc import collect

SECRET = "Ada Lovelace-Byron"
SCRIPT = {"replies": [{"text": f"A letter to {SECRET}.", "usage": {"output_tokens": 50}}]}
OTHER = {"replies": [{"text": "A letter to nobody."}]}
WAITING = {"replies": [{"text": "x", "delay_s": 600}]}
NONE = timedelta(0)


def eraser(site: Installation) -> Eraser:
    return Eraser(site.parts.stores, site.gateway)


async def letter(site: Installation, goal: str, script: Mapping[str, object] = SCRIPT) -> str:
    task = {"kind": "agent", "goal": goal, "learn": False, "metadata": {"label": "letters"}}
    run = await site.start(task, script)
    await site.gateway.result(run)
    return run


async def contents(site: Installation) -> str:
    found: list[str] = []
    async for address, _, _ in site.parts.stores.blobs.addresses():
        found.append((await site.parts.stores.blobs.get(address)).decode(errors="replace"))
    return "\n".join(found)


async def closed(site: Installation, run: str) -> None:
    """A result is in the store a moment before the server has closed and listed the execution.

    A server that is to delete an execution before that tries again much later.
    """

    async def is_closed() -> bool:
        listed = site.client.list_workflows(f"WorkflowId = '{run}' AND CloseTime IS NOT NULL")
        return any([True async for _ in listed])

    await eventually(is_closed)


async def test_a_run_is_erased_and_the_books_stay(site: Installation) -> None:
    stores = site.parts.stores
    run, other = await letter(site, "Write a letter."), await letter(site, "Write one.", OTHER)
    await closed(site, run)
    origin, another = (Origin(run=one, outcome="accepted") for one in (run, other))
    await stores.memory.put(episode("mine", "goal").model_copy(update={"origins": (origin,)}))
    both = Learning(
        kind="learning", id="both", sort="fact", text="Letters begin with a name.",
        created=datetime.now(UTC), origins=(origin, another),
    )  # fmt: skip
    await stores.memory.put(both)
    today = datetime.now(UTC).date()
    days = Period(since=date(2026, 1, 1), until=today + timedelta(days=1))
    before = await stores.ledger().spending("kind", days)

    planned = await eraser(site).erase(run, now=datetime.now(UTC), dry_run=True)
    assert (planned.dry_run, planned.runs, planned.memory.episodes) == (True, (run,), 1)
    assert SECRET in await contents(site)
    found = await eraser(site).erase(run, now=datetime.now(UTC), young=NONE)
    assert found.memory.episodes == 1
    assert found.memory.shared == ("both",)
    assert found.executions == 1
    # The script of the model is no content of the run alone: the test stored it.
    assert f"A letter to {SECRET}." not in (await contents(site)).replace("- text: ", "")
    with pytest.raises(NotFound):
        await stores.memory.get("mine")
    kept = await stores.memory.get("both")
    assert [one.run for one in kept.origins] == [other]
    assert await stores.records.run(run) is None
    assert (await site.gateway.result(other)).output == "A letter to nobody."
    assert await stores.ledger().spending("kind", days) == before

    async def gone() -> bool:
        try:
            await site.handle(run).describe()
        except Exception as error:
            return "not found" in str(error)
        return False

    await eventually(gone)
    again = await eraser(site).erase(run, now=datetime.now(UTC), young=NONE)
    assert (again.runs, again.later) == ((run,), 0)


@pytest.mark.timeout(400)
async def test_what_is_too_young_goes_with_a_later_collection(site: Installation) -> None:
    run = await letter(site, "Write a letter.")
    await closed(site, run)
    found = await eraser(site).erase(run, now=datetime.now(UTC))
    assert (found.blobs, found.later_at is not None) == (0, True)
    assert found.later > 0
    stores = site.parts.stores
    assert await stores.erasure().marked_addresses(run)
    later = datetime.now(UTC) + timedelta(hours=2)

    async def went() -> bool:
        # The server deletes an execution a moment later; until then its history names them.
        await collect(stores, site.gateway, site.parts.workspaces, now=later, dry_run=False)
        return SECRET not in await contents(site) and not await stores.erasure().marked_addresses(
            run
        )

    await eventually(went, seconds=300)


async def test_runs_are_found_by_what_they_mention(site: Installation) -> None:
    run, other = await letter(site, "Write a letter."), await letter(site, "Write one.", OTHER)
    assert await eraser(site).find(subject=SECRET.lower()) == [run]
    assert set(await eraser(site).find(label="letters")) == {run, other}
    assert await eraser(site).find(subject="nobody here") == []


async def test_only_ended_runs_that_are_known_are_erased(site: Installation) -> None:
    with pytest.raises(NotFound, match="There is no run nothing"):
        await eraser(site).erase("nothing", now=datetime.now(UTC))
    run = await site.start({"kind": "agent", "goal": "Wait."}, WAITING)
    with pytest.raises(NotAllowed, match="has not ended"):
        await eraser(site).erase(run, now=datetime.now(UTC))


async def test_a_run_that_was_terminated_is_erased_at_once(site: Installation) -> None:
    run = await site.start({"kind": "agent", "goal": "Wait."}, WAITING)
    await site.client.get_workflow_handle(run).terminate()
    await closed(site, run)
    assert (await eraser(site).erase(run, now=datetime.now(UTC))).runs == (run,)
    assert await site.parts.stores.records.run(run) is None


@pytest.mark.slow
async def test_of_a_run_that_the_server_does_not_know_is_said_how_it_ends(
    site: Installation,
) -> None:
    """It is not erased as it stands: another namespace with the same store may work on it."""
    run = await site.start({"kind": "agent", "goal": "Wait."}, WAITING)
    await site.client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(
            namespace=site.client.namespace, workflow_execution=WorkflowExecution(workflow_id=run)
        )
    )

    async def forgotten() -> bool:
        with suppress(NotFound):
            return (await site.gateway.status(run)).lifecycle == "failed"
        return False

    await eventually(forgotten)
    with pytest.raises(NotAllowed) as refused:
        await eraser(site).erase(run, now=datetime.now(UTC))
    assert f"perdure retry {run}" in (refused.value.cure or "")
    await site.gateway.verb(run, Retry())
    await site.gateway.verb(run, Stop(mode="now"))
    await site.gateway.result(run)
    await closed(site, run)
    assert (await eraser(site).erase(run, now=datetime.now(UTC))).runs == (run,)


async def test_rules_of_retention_drop_what_is_old(site: Installation) -> None:
    stores = site.parts.stores
    run = await letter(site, "Write a letter.")
    await closed(site, run)
    later = datetime.now(UTC) + timedelta(days=31)

    async def collected(rules: str, *, dry_run: bool = False) -> int:
        found = await collect(
            stores, site.gateway, site.parts.workspaces,
            now=later, dry_run=dry_run, rules=read_rules(rules),
        )  # fmt: skip
        return found.runs

    assert await collected("7d outcome=failed; keep label=lett*; 30d") == 0
    assert await collected("30d label=letters", dry_run=True) == 1
    assert await stores.records.run(run) is not None
    assert await collected("30d label=letters") == 1
    assert await stores.records.run(run) is None
    (stone,) = await stores.erasure().tombstones(run)
    assert (stone.kind, stone.label, stone.why) == ("agent", "letters", "expired")


async def reset(site: Installation, run: str) -> None:
    """To the beginning, as `temporal workflow reset` does."""
    client = site.client
    events = (await site.handle(run).fetch_history()).events
    first = next(one for one in events if one.HasField("workflow_task_completed_event_attributes"))
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run),
            reason="a test",
            request_id=f"reset-{run}",
            workflow_task_finish_event_id=first.event_id,
        )
    )


async def test_a_run_that_was_reset_is_left_alone_and_the_rest_is_dropped(
    bare: Installation,
) -> None:
    stores = bare.parts.stores
    twice = {"replies": [{"text": f"A letter to {SECRET}.", "times": 2}]}
    async with bare.worker():
        run = await letter(bare, "Write a letter.", twice)
        other = await letter(bare, "Write one.", OTHER)
        for each in (run, other):
            await closed(bare, each)
    await reset(bare, run)

    async def collected(*, dry_run: bool = False) -> Collected:
        return await collect(
            stores, bare.gateway, bare.parts.workspaces, rules=read_rules("7d"),
            now=datetime.now(UTC) + timedelta(days=8), dry_run=dry_run,
        )  # fmt: skip

    for found in (await collected(dry_run=True), await collected()):
        assert (found.runs, found.left) == (1, 1)
        assert [one.run for one in found.left_runs] == [run]
        assert "has not ended" in found.left_runs[0].why
    assert await stores.records.run(other) is None
    assert not await stores.erasure().tombstones(run)
    async with bare.worker():
        result = await bare.gateway.result(run)
        assert SECRET in (result.output or "")
        await closed(bare, run)
    found = await collected()
    assert (found.runs, found.left) == (1, 0)
    assert await stores.records.run(run) is None
    assert len(await stores.erasure().tombstones(run)) == 1


def row(run: str, *, parent: str | None = None) -> StoredRun:
    then = datetime.now(UTC) - timedelta(days=9)
    return StoredRun(
        id=run, kind="agent", goal="g", label="letters", lifecycle="completed", outcome="accepted",
        started_at=then, ended_at=then, parent=parent,
    )  # fmt: skip


class FickleServer:
    """Refuses whatever it is told of the runs that are named."""

    def __init__(self, records: RecordStore, refused: Mapping[str, PerdureError]) -> None:
        self._records = records
        self._refused = refused

    async def expire(self, stones: Sequence[Tombstone], *, dry_run: bool = False) -> None:
        for stone in stones:
            if stone.run in self._refused:
                raise self._refused[stone.run]
        for stone in () if dry_run else stones:
            await self._records.delete_run(stone.run, stone=stone)


async def expired(site: Installation, refused: Mapping[str, PerdureError]) -> Expired:
    stores = site.parts.stores
    server = cast("RunGateway", FickleServer(stores.records, refused))
    rules = read_rules("7d")
    found = Expired()
    await expire(stores, server, rules, now=datetime.now(UTC), dry_run=False, found=found)
    return found


async def test_what_keeps_one_tree_keeps_no_other(bare: Installation) -> None:
    records = bare.parts.stores.records
    for run, parent in (("a", None), ("b", None), ("b.w1", "b"), ("c", None), ("d", None)):
        await records.put_run(row(run, parent=parent))
    await records.put_run(row("d.w1", parent="d").model_copy(update={"ended_at": None}))
    refused = {"b.w1": NotAllowed("It works again."), "a": InvalidInput("Not a name.")}
    found = await expired(bare, refused)
    assert found.dropped == 1
    assert {one.run: one.why for one in found.named} == {
        "a": "Not a name.",
        "b": "It works again.",
        "d": "The run d.w1 has not ended; only ended runs can be deleted.",
    }
    left = [run for run in ("a", "b", "b.w1", "c", "d", "d.w1") if await records.run(run)]
    assert left == ["a", "b", "b.w1", "d", "d.w1"]
    for run in ("a", "b", "d"):
        assert not await bare.parts.stores.erasure().tombstones(run)


async def test_only_the_first_are_named(bare: Installation) -> None:
    names = [f"run-{number}" for number in range(MOST_NAMED + 3)]
    for name in names:
        await bare.parts.stores.records.put_run(row(name))
    found = await expired(bare, dict.fromkeys(names, NotAllowed("It works again.")))
    assert (found.dropped, found.left, len(found.named)) == (0, MOST_NAMED + 3, MOST_NAMED)


async def test_a_server_that_is_away_ends_the_collection(bare: Installation) -> None:
    await bare.parts.stores.records.put_run(row("a"))
    with pytest.raises(ServiceUnavailable):
        await expired(bare, {"a": ServiceUnavailable("Nobody answers.")})


async def test_an_attempt_goes_on_where_the_one_before_was_broken_off(bare: Installation) -> None:
    records, names = bare.parts.stores.records, [f"run-{number}" for number in range(5)]
    for number, name in enumerate(names):
        older = row(name).ended_at or datetime.now(UTC)
        ended = {"ended_at": older - timedelta(hours=len(names) - number)}
        await records.put_run(row(name).model_copy(update=ended))
    with pytest.raises(ServiceUnavailable):
        await expired(bare, {"run-3": ServiceUnavailable("Nobody answers.")})
    assert [name for name in names if await records.run(name)] == ["run-3", "run-4"]
    assert (await expired(bare, {})).dropped == 2
    assert [name for name in names if await records.run(name)] == []


async def test_a_tombstone_of_an_erasure_gets_no_label_again(bare: Installation) -> None:
    stores, now = bare.parts.stores, datetime.now(UTC)
    for why in ("expired", "erased", "expired"):
        await stores.records.put_run(row("a"))
        await stores.records.delete_run("a", stone=stone_of(row("a"), "a", now, why))
    (stone,) = await stores.erasure().tombstones("a")
    assert (stone.why, stone.label) == ("erased", None)


async def test_calls_of_runs_that_are_gone_are_added_up(site: Installation) -> None:
    stores = site.parts.stores
    run, kept = await letter(site, "Write a letter."), await letter(site, "Write one.", OTHER)
    await closed(site, run)
    days = Period(since=date(2026, 1, 1), until=datetime.now(UTC).date() + timedelta(days=1))
    keys: tuple[SpendKey, ...] = ("day", "kind", "label", "model")
    await site.gateway.delete(kept)
    row = await stores.records.run(run)
    assert row is not None
    await site.gateway.expire([stone_of(row, run, datetime.now(UTC), "expired")])
    before = {by: await stores.ledger().spending(by, days) for by in keys}
    for journal_days, left in ((0, True), (60, True), (7, False)):
        await collect(
            stores, site.gateway, site.parts.workspaces,
            now=datetime.now(UTC) + timedelta(days=31), dry_run=False, journal_days=journal_days,
        )  # fmt: skip
        assert bool(await stores.journal.rows(run)) == left
        assert bool(await stores.journal.replies(run)) == left
        assert {by: await stores.ledger().spending(by, days) for by in keys} == before


async def test_collections_run_on_a_schedule(site: Installation) -> None:
    stray = await site.parts.stores.blobs.put(b"nobody names me")
    assert await site.gateway.upkeep("collection").state() is None
    stands = await site.gateway.upkeep("collection").schedule_every(timedelta(hours=24))
    assert stands.every_s == 86_400
    await site.client.get_schedule_handle(stands.id).trigger()

    async def ran() -> bool:
        found = await site.client.get_schedule_handle(stands.id).describe()
        return bool(found.info.recent_actions) and not found.info.running_actions

    await eventually(ran)
    listed = site.client.list_workflows(f"WorkflowId STARTS_WITH '{stands.id}'")
    [collection] = [found.id async for found in listed]
    [step] = [
        event.activity_task_scheduled_event_attributes
        for event in (await site.handle(collection).fetch_history()).events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    # A worker that dies is noticed soon, and a large store has the time that it takes.
    assert timedelta(0) < step.heartbeat_timeout.ToTimedelta() <= timedelta(minutes=2)
    assert step.start_to_close_timeout.ToTimedelta() >= timedelta(days=7)
    assert await site.parts.stores.blobs.exists(stray), "it is younger than an hour"
    assert await site.gateway.upkeep("collection").delete_schedule()
    assert not await site.gateway.upkeep("collection").delete_schedule()
