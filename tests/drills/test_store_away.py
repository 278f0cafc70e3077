"""The procedure "Outage" of docs/outages.md: a store that is away costs time alone."""

import asyncio
import os
import re
import sqlite3
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from full_store import FullStore, full_store
from ground import HEARTBEAT_S, Ground
from invariants import check
from provider import Play
from waiting import eventually

from perdure.activities import run_lifecycle
from perdure.domain.foundation.errors import StoreAway
from perdure.domain.ports import BlobStore
from perdure.gateway.diagnostics import STORE_BACK

LOOK = ("effect.again", {"word": "a"})
RUNS = 6
SCHEDULED = "activityTaskScheduledEventAttributes"
TOLD = r"waiting for the store since \d\d:\d\d:\d\d UTC: The database .+; tried .+"


@contextmanager
def full(_drill: Ground, store: FullStore) -> Generator[None]:
    store.full = True
    yield
    store.full = False


@contextmanager
def locked(drill: Ground, _store: FullStore) -> Generator[None]:
    holder = sqlite3.connect(drill.site.settings.home / "perdure.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        holder.execute("ROLLBACK")
        holder.close()


def two_turns(body: dict[str, object]) -> list[Play]:
    if "tool_result" in str(body["messages"]):
        return [Play(text="done", gate="later")]
    return [Play(text="", calls=[LOOK])]


# The store may be away for several heartbeats: nobody takes the waiting workers for dead.
@pytest.mark.long
@pytest.mark.parametrize(
    ("outage", "seconds"),
    [
        pytest.param(full, 2 * HEARTBEAT_S, id="disk full"),
        pytest.param(locked, 2 * HEARTBEAT_S, id="SQLite locked", marks=pytest.mark.slow),
        pytest.param(locked, 30.0, id="SQLite locked 30 s", marks=pytest.mark.slow),
        pytest.param(locked, 180.0, id="SQLite locked 3 min", marks=pytest.mark.slow),
    ],
)
async def test_runs_wait_for_their_store_and_end_as_if_nothing_had_happened(
    drill: Ground, outage, seconds: float
) -> None:
    drill.provider.choose = two_turns
    # Connections keep the limit of their last transaction: it is lifted while this block lasts.
    with full_store() as store:
        async with drill.site.worker():
            runs = [await drill.start(goal=f"look at {number}") for number in range(RUNS)]
            await drill.billed(2 * RUNS)
            with outage(drill, store):
                drill.provider.open("later")
                await asyncio.sleep(seconds)
                for run in runs:
                    await eventually(lambda run=run: waits_in_words(drill, run))
            results = [await drill.site.gateway.result(run) for run in runs]
            for run in runs:
                await check(drill.site, run)
    assert {result.output for result in results} == {"done"}
    assert len(drill.provider.lines()) == 2 * RUNS, "no call was made twice"
    billed = sum(line.tokens for line in drill.provider.lines())
    assert sum(result.spend.tokens for result in results) == billed
    assert all(not result.spend.unconfirmed.get("tokens") for result in results)


async def waits_in_words(drill: Ground, run: str) -> bool:
    """Whether the run's status says that it waits for its store, since when and why."""
    status = await drill.site.status(run)
    assert status.lifecycle != "failed"
    return re.fullmatch(TOLD, status.trouble or "") is not None


@pytest.mark.slow
async def test_who_watches_is_told_that_the_end_waits_for_the_store(
    drill: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event `ended` comes when the result is there; since when it waits is the first try's."""
    away, inline = True, run_lifecycle.inline_output

    async def refused(blobs: BlobStore, address: str | None, limit: int) -> tuple[str | None, bool]:
        if away:
            raise StoreAway("The database cannot be reached.")
        return await inline(blobs, address, limit)

    monkeypatch.setattr(run_lifecycle, "inline_output", refused)
    drill.provider.plays = [Play(text="done")]
    told: list[str] = []
    heard: list[str] = []

    async def watch(run: str) -> None:
        async for event in drill.site.gateway.events(run, on_trouble=told.append):
            heard.append(event.type)

    async with drill.site.worker():
        run = await drill.start()
        watching = asyncio.create_task(watch(run))
        await eventually(lambda: told)
        await eventually(lambda: tried_again(drill, run))
        newest = [event for event in await drill.site.history(run) if SCHEDULED in event][-1]
        since = f"since {str(newest['eventTime'])[11:19]} UTC"
        assert since in told[0]
        assert since in ((await drill.site.status(run)).trouble or "")
        assert "ended" not in heard
        away = False
        await watching
        assert told[-1] == STORE_BACK and heard[-1] == "ended"
        assert (await drill.site.gateway.result(run, wait=False)).output == "done"


async def tried_again(drill: Ground, run: str) -> bool:
    """Whether the run's newest step has failed more than once."""
    status = await drill.site.gateway.status(run)
    return re.search(r"; tried \d+ times", status.trouble or "") is not None


@pytest.mark.long
async def test_a_worker_that_waits_for_its_store_ends_when_it_is_told_to(
    drill: Ground, tmp_path: Path
) -> None:
    away = Away(tmp_path / "blobs-away", drill.site.home / "blobs")
    away.take()
    log = tmp_path / "ended.log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "perdure.worker",
            env={
                **os.environ,
                **drill.site.settings.as_environment(),
                **drill.environment(),
                "TEMPORAL_ADDRESS": drill.site.address,
            },
            stdout=out,
            stderr=out,
        )  # fmt: skip
    try:
        await eventually(lambda: "store_away" in log.read_text())
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 60) == 0
    finally:
        if process.returncode is None:
            process.kill()
        away.give_back()


class Away:
    """The folder of blobs, with a file in its place while it is away."""

    def __init__(self, aside: Path, place: Path) -> None:
        self._aside = aside
        self._place = place

    def take(self) -> None:
        """Put a file where the folder was."""
        self._place.rename(self._aside)
        self._place.touch()

    def give_back(self) -> None:
        """The folder is what it was."""
        self._place.unlink()
        self._aside.rename(self._place)
