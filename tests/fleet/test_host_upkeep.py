"""Each host of several removes the working folders of its own runs that have ended."""

import asyncio
import os
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from waiting import eventually

from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.adapters.workspaces.local import NOTE, LocalWorkspaces, host_id
from perdure.domain.foundation.errors import StoreAway
from perdure.domain.run.status import StoredRun
from perdure.fleet.workspace_workers import look_after_folders, release_ended

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncGenerator[Stores]:
    opened = await open_stores(tmp_path / "home")
    yield opened
    await opened.close()


@pytest.fixture
async def workspaces(stores: Stores, tmp_path: Path) -> LocalWorkspaces:
    """Folders of an open run, two ended ones, a deleted one, and one whose row is not there yet."""
    made = LocalWorkspaces(tmp_path / "work", stores.blobs)
    for run, ended in (
        ("open", None),
        ("ended", NOW - timedelta(hours=2)),
        ("ended-just-now", NOW - timedelta(minutes=5)),
    ):
        row = StoredRun(
            id=run,
            kind="agent",
            goal="look",
            label=None,
            outcome=None if ended is None else "accepted",
            lifecycle="running" if ended is None else "completed",
            started_at=NOW - timedelta(hours=3),
            ended_at=ended,
            spec="{}",
        )
        await stores.records.put_run(row)
    for run in ("open", "ended", "ended-just-now", "deleted", "begun"):
        await made.prepare(run=run, source=None, writable=True)
    long_ago = (NOW - timedelta(hours=2)).timestamp()
    os.utime(made._place("deleted") / NOTE, (long_ago, long_ago))
    return made


async def test_folders_of_runs_that_ended_long_ago_go(
    stores: Stores, workspaces: LocalWorkspaces
) -> None:
    assert await release_ended(workspaces, stores.records, now=NOW) == ["deleted", "ended"]
    assert sorted(await workspaces.runs()) == ["begun", "ended-just-now", "open"]
    assert await release_ended(workspaces, stores.records, now=NOW) == []


async def test_a_store_that_is_away_is_asked_again(
    stores: Stores, workspaces: LocalWorkspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    known = stores.records.run

    async def away(run: str) -> StoredRun | None:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise StoreAway("the store is away")
        return await known(run)

    monkeypatch.setattr(stores.records, "run", away)
    stop = asyncio.Event()
    serving = asyncio.create_task(
        look_after_folders(workspaces, stores.records, stop, now=lambda: NOW, every_s=0.01)
    )
    await eventually(lambda: not (workspaces._place("ended")).exists())
    stop.set()
    await serving


async def test_a_folder_that_cannot_be_removed_does_not_keep_the_next(
    stores: Stores, workspaces: LocalWorkspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = workspaces.release

    async def fails(*, run: str) -> None:
        if run == "deleted":
            raise RecursionError("too deep")
        await known(run=run)

    monkeypatch.setattr(workspaces, "release", fails)
    assert await release_ended(workspaces, stores.records, now=NOW) == ["ended"]
    assert sorted(await workspaces.runs()) == ["begun", "deleted", "ended-just-now", "open"]


def test_a_host_keeps_its_id_and_no_two_have_one(tmp_path: Path) -> None:
    ours = host_id(tmp_path / "a")
    assert host_id(tmp_path / "a") == ours
    assert host_id(tmp_path / "b") != ours
    assert [one.name for one in (tmp_path / "a").iterdir()] == [".host"], "no draft is left"


def test_a_folder_that_cannot_be_written_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("in the way")
    with pytest.raises(StoreAway, match=r"work cannot be written: .*\.") as caught:
        host_id(tmp_path / "work")
    assert "right to write" in caught.value.cure


def test_a_folder_without_hard_links_has_an_id_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    assert host_id(tmp_path / "work") == host_id(tmp_path / "work")
    assert [one.name for one in (tmp_path / "work").iterdir()] == [".host"]


def test_many_workers_that_start_at_once_have_one_id(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as at_once:
        ids = set(at_once.map(lambda _: host_id(tmp_path / "work"), range(64)))
    assert len(ids) == 1
    assert [one.name for one in (tmp_path / "work").iterdir()] == [".host"]
