"""Garbage collection: nothing that a retained run leads to is ever dropped."""

from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from holding import HELD, Holding
from installation import Installation

from perdure.domain.foundation.errors import NotAllowed, StoreAway, StoreError
from perdure.domain.generated_tools.record import GeneratedTool, ToolAuthor
from perdure.domain.projects.records import Artifact, Membership
from perdure.domain.run.messages import Stop
from perdure.domain.run.status import StoredRun
from perdure.domain.tools.workspaces import Workspaces
from perdure.gateway import retention
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.types import Retained
from perdure.interfaces.gateways import RunGateway
from perdure.interfaces.services import Collected
from perdure.operations import gc
from perdure.operations.expiry import Expired, expire
from perdure.operations.gc import collect

SCRIPT = {
    "replies": [
        {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}]},
        {"text": "Empty."},
    ]
}
LATER = datetime.now(UTC) + timedelta(days=60)


async def _collect(site: Installation, *, now: datetime, dry_run: bool) -> Collected:
    parts = site.parts
    return await collect(parts.stores, site.gateway, parts.workspaces, now=now, dry_run=dry_run)


@pytest.mark.long
async def test_what_a_retained_run_leads_to_stays(site: Installation) -> None:
    run = await site.start({"kind": "agent", "goal": "look"}, SCRIPT)
    await site.gateway.result(run)
    stray = await site.parts.stores.blobs.put(b"nobody names me")
    collected = await _collect(site, now=LATER, dry_run=False)
    assert not await site.parts.stores.blobs.exists(stray)
    assert collected.blobs >= 1
    result = await site.gateway.result(run)
    assert result.output == "Empty."
    transcript = await site.parts.stores.transcripts.load(result.transcript or "")
    assert [message.role for message in transcript] == ["user", "assistant", "user", "assistant"]


async def test_a_dry_run_drops_nothing_and_counts_the_same(site: Installation) -> None:
    stray = await site.parts.stores.blobs.put(b"nobody names me")
    counted = await _collect(site, now=LATER, dry_run=True)
    assert await site.parts.stores.blobs.exists(stray)
    dropped = await _collect(site, now=LATER, dry_run=False)
    assert (counted.blobs, counted.bytes) == (dropped.blobs, dropped.bytes)


async def test_young_blobs_stay_because_a_step_may_be_about_to_name_them(
    site: Installation,
) -> None:
    young = await site.parts.stores.blobs.put(b"written just now")
    await _collect(site, now=datetime.now(UTC), dry_run=False)
    assert await site.parts.stores.blobs.exists(young)


def _open_row(run: str) -> StoredRun:
    return StoredRun(
        id=run, kind="agent", goal="look", label=None, lifecycle="running", outcome=None,
        started_at=LATER - timedelta(days=2),
    )  # fmt: skip


async def test_a_run_that_the_server_has_dropped_is_passed_over(site: Installation) -> None:
    gate = {"replies": [{"text": "x", "delay_s": 600}]}
    await site.start({"kind": "agent", "goal": "Wait."}, gate)
    await site.parts.stores.records.put_run(_open_row("agent-dropped"))
    collected = await _collect(site, now=LATER, dry_run=False)
    assert collected.kept > 0


@pytest.mark.parametrize("below", [False, True], ids=["a root", "below another run"])
async def test_the_row_of_a_terminated_run_is_closed(site: Installation, below: bool) -> None:
    records = site.parts.stores.records
    run = await site.start({"kind": "agent", "goal": "Wait."}, {"replies": [{"text": "x"}]})
    await site.handle(run).terminate(reason="ops")
    row = await records.run(run)
    assert row is not None
    if below:
        await records.put_run(row.model_copy(update={"parent": "r0"}))
    before = await site.gateway.result(run)
    soon = await _collect(site, now=datetime.now(UTC), dry_run=False)
    counted = await _collect(site, now=LATER, dry_run=True)
    assert (soon.ended, counted.ended, await records.open_runs()) == (0, 0, [run])
    assert (await _collect(site, now=LATER, dry_run=False)).ended == 1
    row = await records.run(run)
    assert row is not None and row.ended_at is not None
    assert (row.lifecycle, row.outcome, row.result is None) == ("stopped", "stopped", below)
    assert (await _collect(site, now=LATER, dry_run=False)).ended == 0
    assert (await site.status(run)).outcome == "stopped"
    after = await site.gateway.result(run)
    assert (after.outcome, after.explanation) == (before.outcome, before.explanation)
    assert after.spend == before.spend


@pytest.mark.parametrize("ended", ["terminated", "stopped at once"])
async def test_the_last_step_of_what_was_ended_keeps_nothing_for_good(
    site: Installation, holding: Holding, ended: str
) -> None:
    """The server has that step as running for as long as it keeps the execution."""
    blobs, script = site.parts.stores.blobs, {"replies": [{"text": "x", "delay_s": HELD}]}
    run = await site.start({"kind": "agent", "goal": "Wait."}, script)
    await holding.begun()
    if ended == "terminated":
        await site.handle(run).terminate(reason="ops")
    else:
        await site.gateway.verb(run, Stop(mode="now"))
        await site.gateway.result(run)
    stray = await blobs.put(b"nobody names me")
    await _collect(site, now=LATER, dry_run=False)
    assert not await blobs.exists(stray)


@pytest.mark.parametrize(
    ("closed", "may"), [(None, True), (timedelta(minutes=59), True), (timedelta(hours=1.1), False)]
)
def test_a_step_may_work_for_a_while_after_its_execution_has_closed(
    closed: timedelta | None, may: bool
) -> None:
    closed_at = None if closed is None else LATER - closed
    found = Retained(run="r", closed_at=closed_at, busy_since=LATER, content=frozenset())
    assert found.may_work(since=LATER - timedelta(hours=1)) == may


async def test_a_run_that_the_server_does_not_know_stays_open(site: Installation) -> None:
    """It may belong to another namespace with the same store."""
    slow = {"replies": [{"text": "x", "delay_s": 600}]}
    run = await site.start({"kind": "agent", "goal": "Wait."}, slow)
    await site.parts.stores.records.put_run(_open_row("agent-elsewhere"))
    assert (await _collect(site, now=LATER, dry_run=False)).ended == 0
    assert "agent-elsewhere" in await site.parts.stores.records.open_runs()
    await site.handle(run).terminate()


async def test_an_execution_that_is_listed_and_deleted_is_no_open_run(
    site: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server lists an execution for a moment after it was deleted, as by an erasure."""
    listed = retention.executions_of

    async def stale(server: TemporalGateway, query: str) -> AsyncIterator[Any]:
        yield SimpleNamespace(id="agent-erased", execution=str(uuid4()))
        async for look in listed(server, query):
            yield look

    monkeypatch.setattr(retention, "executions_of", stale)
    assert (await _collect(site, now=LATER, dry_run=False)).ended == 0


async def test_nothing_is_dropped_on_the_word_of_another_server(site: Installation) -> None:
    await site.parts.stores.records.put_run(_open_row("agent-elsewhere"))
    needed = await site.parts.stores.blobs.put(b"named in a history of the other namespace")
    with pytest.raises(NotAllowed, match=r"agent-elsewhere.*knows no run.*nothing was") as refused:
        await _collect(site, now=LATER, dry_run=False)
    assert "TEMPORAL_NAMESPACE" in (refused.value.cure or "")
    assert await site.parts.stores.blobs.exists(needed)
    await site.gateway.delete("agent-elsewhere")
    await _collect(site, now=LATER, dry_run=False)
    assert not await site.parts.stores.blobs.exists(needed)


@pytest.mark.long
async def test_what_a_fork_starts_from_stays(site: Installation) -> None:
    run = await site.start({"kind": "agent", "goal": "look"}, SCRIPT)
    await site.gateway.result(run)
    await _collect(site, now=LATER, dry_run=False)
    told = await site.gateway.fork_spec(run, 1)
    fork = await site.gateway.fork(run, 1, told)
    assert (await site.gateway.result(fork)).output == "Empty."


@pytest.mark.long
async def test_what_a_run_made_stays_as_long_as_the_run(site: Installation) -> None:
    stores = site.parts.stores
    run = await site.start({"kind": "agent", "goal": "look"}, SCRIPT)
    await site.gateway.result(run)
    made = await _made(site, run)
    await _collect(site, now=LATER, dry_run=False)
    assert await stores.blobs.exists(made.ref)
    await site.gateway.delete(run)
    await _collect(site, now=LATER, dry_run=False)
    assert not await stores.blobs.exists(made.ref)


async def test_nothing_is_dropped_where_a_root_cannot_be_read(site: Installation) -> None:
    """What a damaged blob leads to is unknown; it may be all that an open run has."""
    blobs = site.parts.stores.blobs
    stray, leaf = await blobs.put(b"nobody names me"), await blobs.put(b"leaf")
    root = await blobs.put(f"leads to {leaf}".encode())
    await _made(site, "somebody", ref=root)
    [file] = site.home.glob(f"blobs/*/{root.partition(':')[2][2:]}")
    file.write_bytes(b"damaged")
    with pytest.raises(StoreError, match="nothing was deleted"):
        await _collect(site, now=LATER, dry_run=False)
    assert await blobs.exists(leaf) and await blobs.exists(stray)


def _folders(
    made: dict[str, datetime], release: Callable[..., Coroutine[Any, Any, None]]
) -> Workspaces:
    async def runs() -> dict[str, datetime]:
        return made

    async def nothing() -> None:
        return None

    told = SimpleNamespace(release=release, runs=runs, remove_unfinished=nothing)
    return cast("Workspaces", told)


@pytest.mark.parametrize(
    ("made_ago", "ended_ago", "goes"),
    [
        (timedelta(seconds=1), None, False),
        (timedelta(hours=2), None, True),
        (timedelta(seconds=1), timedelta(days=1), False),
        (timedelta(minutes=9), timedelta(minutes=1), True),
        (timedelta(days=2), timedelta(days=1), True),
    ],
    ids=["just begun", "deleted", "being retried", "just ended", "ended"],
)
async def test_the_folder_of_a_run_that_has_just_begun_stays(
    site: Installation, made_ago: timedelta, ended_ago: timedelta | None, goes: bool
) -> None:
    """It is made before the row, and after a collection has listed the open runs."""
    now, released = datetime.now(UTC), list[str]()
    if ended_ago is not None:
        row = _open_row("agent-1")
        ended = {"lifecycle": "completed", "outcome": "completed", "ended_at": now - ended_ago}
        await site.parts.stores.records.put_run(row.model_copy(update=ended))

    async def release(*, run: str) -> None:
        released.append(run)

    folders = _folders({"agent-1": now - made_ago}, release)
    await collect(site.parts.stores, site.gateway, folders, now=now, dry_run=False)
    assert released == (["agent-1"] if goes else [])


@pytest.mark.long
async def test_the_working_folder_of_a_run_that_was_reset_stays(site: Installation) -> None:
    """Its row says ended until the new execution ends; the folder is in use."""
    run = await site.start({"kind": "agent", "goal": "look"}, SCRIPT)
    await site.gateway.result(run)
    released: list[str] = []

    async def none(*, before: datetime) -> int:
        del before
        return 0

    async def release(*, run: str) -> None:
        released.append(run)
        raise RecursionError("what keeps one folder keeps no other, and no collection")

    held = await site.start({"kind": "agent", "goal": "look"}, SCRIPT)
    await site.gateway.result(held)

    made = datetime.now(UTC) - timedelta(days=1)
    folders = _folders({run: made, held: made, "agent-dropped": made}, release)
    reopened = cast("RunGateway", SimpleNamespace(retained=lambda: _open(run), close_rows=none))
    await collect(site.parts.stores, reopened, folders, now=LATER, dry_run=False)
    assert released == [held, "agent-dropped"]


async def test_a_blob_of_an_erased_run_that_another_names_is_no_longer_waited_for(
    site: Installation,
) -> None:
    """Else the doctor would ask for collections for ever, and none of them would help."""
    ended = await site.start({"kind": "agent", "goal": "look"}, SCRIPT)
    await site.gateway.result(ended)
    waiting = {"replies": [{"text": "late", "delay_s": 600}]}
    going_on = await site.start({"kind": "agent", "goal": "wait"}, waiting)
    erasure, blobs = site.parts.stores.erasure(), site.parts.stores.blobs
    shared, own = [await _spec_of(site, run) for run in (ended, going_on)]
    await erasure.mark([], [shared], root="agent-erased", at=LATER)
    await erasure.ask([going_on], at=LATER)
    await erasure.mark([], [own], root=going_on, at=LATER)
    await _collect(site, now=LATER, dry_run=False)
    assert await erasure.marked_addresses() == {own}, "this one's rows have not gone yet"
    assert await blobs.exists(shared) and await blobs.exists(own)
    await site.gateway.verb(going_on, Stop(mode="now"))


async def _spec_of(site: Installation, run: str) -> str:
    row = await site.parts.stores.records.run(run)
    assert row is not None and row.spec is not None
    return row.spec


class FullDisk:
    """A database that drops one run and then refuses a write, for some attempts."""

    def __init__(self, refusals: int) -> None:
        self._refusals = refusals

    async def expire(self, *given: Any, found: Expired, **named: Any) -> None:
        if not self._refusals:
            await expire(*given, found=found, **named)
            return
        self._refusals -= 1
        found.dropped += 1
        found.leave("agent-1", "It was reset.")
        raise StoreAway("The database in /home is full.", cure="Run perdure gc.")


async def test_a_full_disk_gives_up_files_before_rows(
    site: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "expire", FullDisk(1).expire)
    erasure = site.parts.stores.erasure()
    stray = await site.parts.stores.blobs.put(b"nobody names me")
    await erasure.mark([], [stray], root="a", at=LATER)
    collected = await _collect(site, now=LATER, dry_run=False)
    assert not await site.parts.stores.blobs.exists(stray)
    assert (collected.runs, collected.left) == (1, 0)
    assert collected.blobs >= 1 and collected.bytes >= len(b"nobody names me")
    assert await erasure.marked_addresses() == set()


async def test_a_disk_that_stays_full_is_told_with_what_went_and_what_did_not(
    site: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "expire", FullDisk(2).expire)
    stray = await site.parts.stores.blobs.put(b"nobody names me")
    with pytest.raises(StoreAway, match=r"Dropped 2 runs and 1 unneeded blob .*stay") as refused:
        await _collect(site, now=LATER, dry_run=False)
    assert "The database in /home is full." in refused.value.message
    assert "collect again" in (refused.value.cure or "")
    assert not await site.parts.stores.blobs.exists(stray)


async def test_a_dry_run_on_a_full_disk_drops_nothing(
    site: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "expire", FullDisk(1).expire)
    stray = await site.parts.stores.blobs.put(b"nobody names me")
    with pytest.raises(StoreAway) as refused:
        await _collect(site, now=LATER, dry_run=True)
    assert refused.value.message == "The database in /home is full."
    assert await site.parts.stores.blobs.exists(stray)


async def _open(run: str) -> AsyncIterator[Retained]:
    yield Retained(run=run, closed_at=None, busy_since=None, content=frozenset())


async def _made(site: Installation, run: str, *, ref: str | None = None) -> Artifact:
    ref = ref or await site.parts.stores.blobs.put(f"made by {run}".encode())
    artifact = Artifact(
        id=f"artifact-{run}",
        belongs=Membership(scope="project", owner="p"),
        run=run,
        name="notes.md",
        ref=ref,
        bytes=1,
        created_at=LATER,
    )
    return await site.parts.stores.artifacts.add_artifact(artifact)


async def test_the_code_of_a_made_tool_stays(site: Installation) -> None:
    stores = site.parts.stores
    code = await stores.blobs.put(b"def handler(*, text: str) -> dict: ...")
    tool = GeneratedTool(
        hash="a" * 64,
        name="text.count",
        description="Count.",
        parameters={},
        code=code,
        handler="handler",
        pipeline=1,
        made_at=LATER,
    )
    await stores.made_tools.keep(tool, ToolAuthor(run="d", root="d", worker="w", at=LATER))
    await _collect(site, now=LATER, dry_run=False)
    assert await stores.blobs.exists(code)
