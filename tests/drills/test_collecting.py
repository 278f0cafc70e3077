"""Cleaning up the stores never costs a run anything: not while it works, not while it rests."""

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest
from holding import HELD, Holding
from installation import Installation
from mixed import at_rest, results_of, start_mixed

from perdure.domain.run.messages import Pause, Resume
from perdure.interfaces.services import Collected
from perdure.operations.gc import YOUNG, collect

LONG = timedelta(days=60)
AT_ONCE = 3


async def _collect(
    site: Installation, *, later: timedelta = timedelta(0), young: timedelta = YOUNG
) -> Collected:
    """A collection at another time than now."""
    parts, now = site.parts, datetime.now(UTC) + later
    return await collect(
        parts.stores, site.gateway, parts.workspaces, now=now, dry_run=False, young=young
    )


async def _stray(site: Installation) -> str:
    """A blob that nobody names."""
    return await site.parts.stores.blobs.put(random.randbytes(40))


@pytest.mark.long
async def test_runs_that_rest_for_longer_than_blobs_are_young_go_on(
    kept: Installation, holding: Holding
) -> None:
    async with kept.worker():
        undisturbed = await results_of(kept, await start_mixed(kept))
        runs = await start_mixed(kept, middle_s=HELD)
        await holding.begun(len(runs))
        for run in runs.values():
            await kept.gateway.verb(run, Pause(by="drill"))
        holding.release()
        await at_rest(kept)
    strays = [await _stray(kept) for _ in range(3)]
    collected = await _collect(kept, later=LONG)
    assert collected.blobs >= len(strays)
    assert not any([await kept.parts.stores.blobs.exists(stray) for stray in strays])
    # Another worker: nothing is left in a cache, so all comes from history and store.
    async with kept.worker():
        for run in runs.values():
            await kept.gateway.verb(run, Resume(by="drill"))
        assert await results_of(kept, runs) == undisturbed


@pytest.mark.long
async def test_steps_under_way_keep_what_they_stored(kept: Installation, holding: Holding) -> None:
    """A call that streams for days has stored what nothing names yet."""
    async with kept.worker():
        undisturbed = await results_of(kept, await start_mixed(kept))
        runs = await start_mixed(kept, middle_s=HELD)
        await holding.begun(len(runs))
        stored_meanwhile = await _stray(kept)
        await _collect(kept, later=LONG)
        assert await kept.parts.stores.blobs.exists(stored_meanwhile)
        holding.release()
        assert await results_of(kept, runs) == undisturbed


async def _load(site: Installation, *, rounds: int) -> None:
    undisturbed = await results_of(site, await start_mixed(site))
    random_moments = random.Random(7)
    for _ in range(rounds):
        sets = [await start_mixed(site) for _ in range(AT_ONCE)]
        ending = [asyncio.ensure_future(results_of(site, runs)) for runs in sets]
        while not all(task.done() for task in ending):
            # With no margin at all: what a step stored before now is safe as long as it works.
            await _collect(site, young=timedelta(0))
            await asyncio.wait(ending, timeout=random_moments.random())
        assert [await task for task in ending] == [undisturbed] * AT_ONCE


@pytest.mark.long
@pytest.mark.timeout(1_800)  # 13 s of processor time took a minute on a busy machine
async def test_collections_at_random_moments_under_load(kept: Installation) -> None:
    async with kept.worker():
        await _load(kept, rounds=1)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
# Each store once: encryption changes what is in it, and no moment.
@pytest.mark.parametrize("kept", ["sqlite", "postgresql-sealed", "s3"], indirect=True)
async def test_many_collections_at_random_moments_under_load(kept: Installation) -> None:
    async with kept.worker():
        await _load(kept, rounds=12)
