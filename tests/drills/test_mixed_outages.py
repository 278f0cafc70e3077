"""The procedure "Outage" of docs/outages.md, with runs of every kind anywhere in their lives.

The store is taken away while replies are on their way and steps in between; nothing is restarted.
"""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from full_folder import small_disk
from holding import HELD, Holding
from installation import Installation, installation
from invariants import check
from mixed import Told, results_of, start_mixed
from object_store import made_bucket, proxy, s3, use_server
from postgresql import stoppable
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.foundation.errors import StoreAway
from perdure.domain.run.result import RunResult

KINDS = 4
AWAY_S = 2.0
# Nothing is killed here, so no call may be lost for want of a heartbeat on a busy machine.
HEARTBEAT_S = 20.0
LONG_S = 180  # longer than any of the runs works, on a busy machine too
Spec = Mapping[str, object]
Switch = Callable[[], Awaitable[None]]


class Fragile(NamedTuple):
    """An installation whose store a drill can take away, and give back."""

    site: Installation
    take: Switch
    give_back: Switch


Opened = AbstractAsyncContextManager[Fragile]


@asynccontextmanager
async def postgresql_stopped(address: str, folder: Path) -> AsyncGenerator[Fragile]:
    with stoppable() as server:
        async with installation(
            folder / "home", address, heartbeat_s=HEARTBEAT_S, database_url=server.url
        ) as site:
            yield Fragile(
                site,
                lambda: asyncio.to_thread(server.stop),
                lambda: asyncio.to_thread(server.start),
            )


@asynccontextmanager
async def disk_full(address: str, folder: Path) -> AsyncGenerator[Fragile]:
    with small_disk(folder / "home") as disk:
        async with installation(folder / "home", address, heartbeat_s=HEARTBEAT_S) as site:
            yield Fragile(
                site,
                lambda: asyncio.to_thread(disk.fill),
                lambda: asyncio.to_thread(disk.make_room),
            )


@asynccontextmanager
async def sqlite_locked(address: str, folder: Path) -> AsyncGenerator[Fragile]:
    async with installation(folder / "home", address, heartbeat_s=HEARTBEAT_S) as site:
        holder = sqlite3.connect(
            site.home / "perdure.sqlite", isolation_level=None, check_same_thread=False, timeout=60
        )

        async def take() -> None:
            await asyncio.to_thread(holder.execute, "BEGIN IMMEDIATE")

        async def give_back() -> None:
            holder.execute("ROLLBACK")

        try:
            yield Fragile(site, take, give_back)
        finally:
            holder.close()


@asynccontextmanager
async def objects_away(address: str, folder: Path) -> AsyncGenerator[Fragile]:
    with s3() as server, proxy(server) as before, pytest.MonkeyPatch.context() as patch:
        use_server(patch, before.url)
        place = f"s3://{made_bucket(server)}/drill"
        async with installation(
            folder / "home", address, heartbeat_s=HEARTBEAT_S, blobs=place
        ) as site:
            yield Fragile(
                site, lambda: asyncio.to_thread(before.away), lambda: asyncio.to_thread(before.back)
            )


@pytest.fixture
async def fragile(
    request: pytest.FixtureRequest, server: WorkflowEnvironment, tmp_path: Path
) -> AsyncIterator[Fragile]:
    """The installation of the outage that the drill is given."""
    address = server.client.service_client.config.target_host
    opened: Opened = request.param(address, tmp_path)
    async with opened as made:
        yield made


OUTAGES = (postgresql_stopped, disk_full, sqlite_locked, objects_away)


@pytest.mark.long
@pytest.mark.parametrize(
    "fragile",
    [
        pytest.param(postgresql_stopped, id="postgresql stopped"),
        pytest.param(objects_away, id="objects away"),
    ],
    indirect=True,
)
async def test_runs_of_every_kind_end_as_undisturbed(fragile: Fragile, holding: Holding) -> None:
    await _end_as_undisturbed([fragile], holding, seconds=2, of_each=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(seconds, id=f"{seconds} s", marks=pytest.mark.timeout(10 * seconds + 1_800))
        for seconds in (30, 180, 600)
    ],
)
async def test_runs_on_all_stores_at_once_end_as_undisturbed(
    server: WorkflowEnvironment, tmp_path: Path, holding: Holding, seconds: int
) -> None:
    """The stores are away beside each other, since nearly all of this is waiting."""
    address = server.client.service_client.config.target_host
    stores: list[Fragile] = []
    async with AsyncExitStack() as stack:
        for outage in OUTAGES:
            try:
                opened = await stack.enter_async_context(
                    outage(address, tmp_path / outage.__name__)
                )
            except pytest.skip.Exception as skipped:  # only root may mount a disk
                print(f"left out: {outage.__name__}: {skipped}")
            else:
                stores.append(opened)
        assert len(stores) >= len(OUTAGES) - 1
        await _end_as_undisturbed(stores, holding, seconds=seconds, of_each=5)


async def _end_as_undisturbed(
    stores: Sequence[Fragile], holding: Holding, *, seconds: int, of_each: int
) -> None:
    async with AsyncExitStack() as working:
        for store in stores:
            await working.enter_async_context(store.site.worker())
        undisturbed = [await results_of(one.site, await start_mixed(one.site)) for one in stores]
        held = [
            [await start_mixed(store.site, middle_s=HELD) for _ in range((of_each + 1) // 2)]
            for store in stores
        ]
        await holding.begun(KINDS * sum(map(len, held)))
        # The others are anywhere: nobody knows what they do when the store goes.
        others = [
            [await start_mixed(store.site, middle_s=0.3 * n) for n in range(of_each // 2)]
            for store in stores
        ]
        await asyncio.gather(*(store.take() for store in stores))
        holding.release()
        await asyncio.sleep(seconds)
        await asyncio.gather(*(store.give_back() for store in stores))
        for store, told, first, later in zip(stores, undisturbed, held, others, strict=True):
            await _as_undisturbed(store.site, told, [*first, *later], seconds)


async def _as_undisturbed(
    site: Installation, undisturbed: dict[str, Told], sets: list[dict[str, str]], seconds: int
) -> None:
    for runs in sets:
        assert await results_of(site, runs) == undisturbed
    for runs in sets:
        for run in runs.values():
            await books_agree(site, run)
            if seconds >= LONG_S:
                spend = (await site.gateway.result(run)).spend
                assert spend.active_time_s < seconds, "waiting for a store is no work"
    await eventually(lambda: nothing_is_open(site))


@pytest.mark.long
@pytest.mark.parametrize(
    "fragile",
    [
        pytest.param(postgresql_stopped, id="postgresql stopped"),
        pytest.param(objects_away, id="objects away"),
        pytest.param(disk_full, id="disk full", marks=pytest.mark.slow),
        pytest.param(sqlite_locked, id="sqlite locked", marks=pytest.mark.slow),
    ],
    indirect=True,
)
async def test_a_worker_that_is_started_meanwhile_goes_on_when_the_store_is_back(
    fragile: Fragile,
) -> None:
    site = fragile.site
    await fragile.take()
    working = asyncio.create_task(worked(site))
    ended, _ = await asyncio.wait({working}, timeout=AWAY_S)
    assert not ended, "it waits"
    await fragile.give_back()
    result = await working
    assert result is not None
    assert result.output == "done"


async def worked(site: Installation) -> RunResult | None:
    """What a run comes to on a worker that is started now."""
    async with site.worker():
        script = {"replies": [{"text": "done"}]}
        spec = {"kind": "agent", "goal": "say", "learn": False}
        return await eventually(lambda: tried(site, spec, script))


async def tried(site: Installation, spec: Spec, script: Spec) -> RunResult | None:
    """A door gives up where a step of a run waits: who starts one sends it again."""
    try:
        return await site.run(spec, script)
    except StoreAway:
        return None


async def books_agree(site: Installation, run: str) -> None:
    """All invariants, over the run's tree: one with runs below it has their spend in its own."""
    rows = await site.parts.stores.journal.tree(root=run, run=run)
    result = await site.gateway.result(run)
    assert all(row.state == "answered" for row in rows), rows
    assert sum(row.usage.counted_tokens() for row in rows) == result.spend.tokens
    assert not result.spend.unconfirmed.get("tokens")
    if result.kind != "delegation":
        await check(site, run)


async def nothing_is_open(site: Installation) -> bool:
    """Whether the server knows no open run of this installation."""
    return not any([found.busy_since is not None async for found in site.gateway.retained()])
