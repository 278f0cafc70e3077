"""Idle services end by elapsed time, unless a schedule is going to start something."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from namespaces import registered
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleSpec,
    ScheduleState,
)
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.foundation.names import collection_schedule_id, schedule_id
from perdure.local_services import idle_shutdown
from perdure.local_services.idle_shutdown import until_idle
from perdure.local_services.state import HomeFiles
from perdure.local_services.temporal_server import starts_ahead

HOUR_S = 3600.0
AFTER = timedelta(seconds=0.4)
OURS = "0123abcd"


@pytest.fixture
async def client(server: WorkflowEnvironment) -> Client:
    """A client of a namespace without any schedule."""
    address = server.client.service_client.config.target_host
    return await Client.connect(address, namespace=await registered(server.client))


def yearly(*, paused: bool = False, end_at: datetime | None = None) -> Schedule:
    return Schedule(
        action=ScheduleActionStartWorkflow("Waiting", id="later", task_queue="nobody"),
        spec=ScheduleSpec(
            intervals=[ScheduleIntervalSpec(every=timedelta(days=365))], end_at=end_at
        ),
        state=ScheduleState(paused=paused),
    )


async def looks_until_idle(
    home: Path, monkeypatch: pytest.MonkeyPatch, *, uses: int, ahead_s: float
) -> int:
    """How often open runs were counted; each of the first looks sees a use by a strange clock."""
    files = HomeFiles(home)
    files.used.parent.mkdir(parents=True, exist_ok=True)
    looks = 0

    async def count_open(*_: object) -> int:
        nonlocal looks
        looks += 1
        if looks <= uses:
            moment = files.used.stat().st_mtime + (ahead_s if looks == 1 else 0.01)
            os.utime(files.used, (moment, moment))
        return 0

    async def no_starts(*_: object, **__: object) -> bool:
        return False

    monkeypatch.setattr(idle_shutdown, "count_open", count_open)
    monkeypatch.setattr(idle_shutdown, "starts_ahead", no_starts)
    async with asyncio.timeout(10):
        # Nothing else asks the server.
        await until_idle(cast(Client, None), files, after=AFTER, shared=False)
    return looks


async def test_a_clock_that_was_set_back_does_not_keep_idle_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await looks_until_idle(tmp_path, monkeypatch, uses=1, ahead_s=HOUR_S) > 1


async def test_a_clock_that_was_set_forward_does_not_end_services_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await looks_until_idle(tmp_path, monkeypatch, uses=6, ahead_s=-HOUR_S) > 6


async def test_services_stay_until_no_schedule_is_going_to_start_something(
    client: Client, tmp_path: Path
) -> None:
    files = HomeFiles(tmp_path)
    files.used.parent.mkdir(parents=True, exist_ok=True)
    collection = await client.create_schedule(collection_schedule_id(OURS), yearly())
    await eventually(lambda: starts_ahead(client, ours=True))
    idle = asyncio.create_task(until_idle(client, files, after=AFTER, shared=False))
    await asyncio.wait({idle}, timeout=8 * AFTER.total_seconds())
    assert not idle.done()
    await collection.pause()
    await asyncio.wait_for(idle, timeout=60)


async def test_a_schedule_that_starts_nothing_or_is_of_others_keeps_no_services(
    client: Client,
) -> None:
    over = datetime.now(UTC) - timedelta(days=1)
    await client.create_schedule(schedule_id(OURS, "paused"), yearly(paused=True))
    await client.create_schedule(schedule_id(OURS, "over"), yearly(end_at=over))
    other = await client.create_schedule("of-others", yearly())

    async def listed() -> bool:
        return len([one async for one in await client.list_schedules()]) == 3

    await eventually(listed)
    assert await starts_ahead(client, ours=True) is False
    assert await starts_ahead(client, ours=False) is True
    await other.delete()

    async def nothing_ahead() -> bool:
        return await starts_ahead(client, ours=False) is False

    await eventually(nothing_ahead)


async def test_a_server_that_cannot_tell_its_schedules_keeps_the_services(client: Client) -> None:
    address = client.service_client.config.target_host
    nowhere = await Client.connect(address, namespace="no-such-namespace")
    assert await starts_ahead(nowhere, ours=False) is None
