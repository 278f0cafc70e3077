"""What `doctor` says of collections: whether they are scheduled, and how the last of them went."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from installation import Installation
from waiting import eventually

from perdure.domain.projects.records import Artifact, Membership
from perdure.domain.retention.erasure import Pending
from perdure.domain.run.status import StoredRun
from perdure.gateway.types import UpkeepOutcome, UpkeepSchedule
from perdure.operations.doctor_server import collecting, erasing

DAY = 86_400.0
NIGHT = datetime(2026, 3, 1, 2, 30, tzinfo=UTC)
LAST = "perdure-1a2b-gc-2026-03-01T02:30:00Z"


@pytest.mark.parametrize(
    ("stands", "went", "state", "said", "cure"),
    [
        ({}, {}, "ok", "every 1 d; none was due so far", ""),
        ({"looks": 30}, {}, "ok", "every 1 d; the server knows of no success", ""),
        (
            {"looks": 3},
            {"succeeded_at": NIGHT},
            "ok",
            "every 1 d; the last success was at 2026-03-01 02:30 UTC",
            "",
        ),
        (
            {"looks": 3},
            {"succeeded_at": NIGHT, "open": True, "began_at": NIGHT + timedelta(days=1)},
            "ok",
            "one is at work since 2026-03-02 02:30 UTC; the last success was at 2026-03-01 02:30",
            "",
        ),
        (
            {"looks": 1},
            {"open": True, "unfetched": True, "began_at": NIGHT},
            "warning",
            "no worker takes the one that began at 2026-03-01 02:30 UTC; the server knows of no",
            "Start one with `perdure worker`",
        ),
        (
            {"looks": 3, "paused": True},
            {"succeeded_at": NIGHT},
            "warning",
            "every 1 d is paused; the last success was at 2026-03-01 02:30 UTC",
            "perdure gc --every 86400s",
        ),
        (
            {"looks": 3},
            {"failed": LAST, "why": "The key is missing.", "succeeded_at": NIGHT},
            "failed",
            f"the last one, {LAST}, failed: The key is missing.; the last success was at 2026",
            f"temporal workflow show --workflow-id {LAST}",
        ),
        (
            {"looks": 3, "paused": True},
            {"failed": LAST, "why": "attempt 9: no disk", "open": True},
            "failed",
            "is paused; the last one, " + LAST + ", fails again and again: attempt 9: no disk",
            "perdure gc --every 86400s",
        ),
    ],
)
def test_pauses_failures_and_successes_are_told(
    stands: dict[str, object], went: dict[str, object], state: str, said: str, cure: str
) -> None:
    schedule = UpkeepSchedule.model_validate({"id": "s", "every_s": DAY, **stands})
    check = collecting(schedule, UpkeepOutcome.model_validate(went))
    assert (check.name, check.state) == ("retention", state)
    assert said in check.found
    assert cure in (check.cure or "")
    assert bool(check.cure) == (state != "ok")


async def _triggered(site: Installation, id: str) -> None:
    """Let the schedule start one, and wait until it has ended."""
    handle = site.client.get_schedule_handle(id)

    async def rests() -> bool:
        return not (await handle.describe()).info.running_actions

    # While one is open, another is skipped.
    await eventually(rests)
    before = (await handle.describe()).info.num_actions
    await handle.trigger()

    async def ended() -> bool:
        info = (await handle.describe()).info
        return info.num_actions > before and not info.running_actions

    await eventually(ended)


async def _damaged(site: Installation) -> None:
    """What an artifact names cannot be read, so that no collection can follow it."""
    content = b"named"
    ref = await site.parts.stores.blobs.put(content)
    artifact = Artifact(
        id="artifact", belongs=Membership(scope="project", owner="p"), run="r", name="notes.md",
        ref=ref, bytes=len(content), created_at=NIGHT,
    )  # fmt: skip
    await site.parts.stores.artifacts.add_artifact(artifact)
    [file] = site.home.glob(f"blobs/*/{ref.partition(':')[2][2:]}")
    file.write_bytes(b"damaged")


async def test_the_gateway_knows_how_collections_went(site: Installation) -> None:
    collections = site.gateway.upkeep("collection")
    assert await collections.outcome() == UpkeepOutcome()
    id = (await collections.schedule_every(timedelta(hours=24))).id
    assert await collections.outcome() == UpkeepOutcome()
    await _triggered(site, id)
    first = await collections.outcome()
    assert first.succeeded_at is not None
    assert (first.failed, first.open) == (None, False)

    await _damaged(site)
    handle = site.client.get_schedule_handle(id)
    await handle.pause()
    await asyncio.sleep(1.0)  # the second is part of the workflow's id
    await handle.trigger()
    second = UpkeepOutcome()

    async def fails() -> bool:
        nonlocal second
        second = await collections.outcome()
        return second.failed is not None

    await eventually(fails)

    async def paused() -> bool:
        stands = await collections.state()
        return stands is not None and stands.paused

    await eventually(paused)
    assert second.succeeded_at == first.succeeded_at
    assert second.open and "nothing was deleted" in second.why
    failed = second.failed or ""
    assert failed.startswith(id)
    await site.handle(failed).terminate("not needed")
    third = await collections.outcome()
    assert (third.open, third.failed, third.succeeded_at) == (False, failed, first.succeeded_at)
    assert third.why
    await collections.delete_schedule()


async def test_collections_of_one_second_are_told_apart_and_know_another_server(
    site: Installation,
) -> None:
    collections, records = site.gateway.upkeep("collection"), site.parts.stores.records
    id = (await collections.schedule_every(timedelta(hours=24))).id
    elsewhere = StoredRun(
        id="agent-elsewhere", kind="agent", goal="g", label=None, lifecycle="running",
        outcome=None, started_at=NIGHT,
    )  # fmt: skip

    async def at_once() -> bool:
        """One that succeeds, and one that fails, in one second: there are few tries between."""
        await records.delete_run(elsewhere.id)
        before = await _begun(site, id)
        await _triggered(site, id)
        # The store has an open run, of which this server knows as little as of all others.
        await records.put_run(elsewhere)
        await site.client.get_schedule_handle(id).trigger()
        await eventually(lambda: _more(site, id, before + 1))
        first, second = (one.action for one in (await _recent(site, id))[-2:])
        return first.workflow_id == second.workflow_id

    await eventually(at_once)
    went = UpkeepOutcome()

    async def fails() -> bool:
        nonlocal went
        went = await collections.outcome()
        return went.failed is not None

    await eventually(fails)
    assert "agent-elsewhere" in went.why
    assert "knows no run of this installation" in went.why
    first = (await _recent(site, id))[-2].action
    handle = site.client.get_workflow_handle(first.workflow_id, run_id=first.first_execution_run_id)
    assert went.succeeded_at == (await handle.describe()).close_time
    await collections.delete_schedule()


async def _recent(site: Installation, id: str) -> list[Any]:
    recent = (await site.client.get_schedule_handle(id).describe()).info.recent_actions
    return sorted(recent, key=lambda one: one.started_at)


async def _begun(site: Installation, id: str) -> int:
    return (await site.client.get_schedule_handle(id).describe()).info.num_actions


async def _more(site: Installation, id: str, than: int) -> bool:
    return await _begun(site, id) > than


@pytest.mark.parametrize(
    ("left", "said", "cure"),
    [
        ({}, None, ""),
        (
            {"roots": ("a", "b"), "since": NIGHT},
            "2 erasures not complete, the first, a, asked for at 2026-03-01 02:30 UTC",
            "perdure erase --resume --yes",
        ),
        (
            {"blobs": 1, "blobs_since": NIGHT},
            "1 blob of erased runs wait for a collection since 2026-03-01 02:30 UTC",
            "perdure gc",
        ),
    ],
)
def test_erasures_that_are_not_complete_are_told(
    left: dict[str, object], said: str | None, cure: str
) -> None:
    check = erasing(Pending.model_validate(left))
    if said is None:
        assert check is None
        return
    assert check is not None
    assert (check.name, check.state) == ("erasure", "warning")
    assert said in check.found
    assert cure in check.cure
