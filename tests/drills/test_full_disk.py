"""A disk without one free byte below the store and its blobs, while runs are open.

Who looks is told the place and the cure, nothing is half-written, and the cure works: a collection
makes room on the full disk.
"""

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, closing
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from full_folder import SmallDisk, small_disk
from holding import HELD, Holding
from installation import Installation, installation
from invariants import check
from mixed import results_of, start_mixed
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.file_blobs import UNFINISHED
from perdure.adapters.stores.maintenance import try_writing
from perdure.domain.foundation.errors import ServiceUnavailable, StoreAway
from perdure.domain.retention.rules import read_rules
from perdure.interfaces.services import Check
from perdure.operations.doctor import diagnose
from perdure.operations.gc import collect

KINDS = 4
SPARE = 4 * 1024 * 1024
LATER = timedelta(hours=2)


@pytest.fixture
async def small(
    server: WorkflowEnvironment, tmp_path: Path
) -> AsyncIterator[tuple[Installation, SmallDisk]]:
    """An installation whose home is a disk of its own."""
    address = server.client.service_client.config.target_host
    with small_disk(tmp_path / "home") as disk:
        async with installation(tmp_path / "home", address, heartbeat_s=2.0) as site:
            yield site, disk


def _nobody(**_given: object) -> AbstractContextManager[object]:
    raise ServiceUnavailable("No server answers.", cure="Start one.")


async def _store_by_doctor(site: Installation) -> Check:
    checks = diagnose(Settings.load(home=site.home), _nobody)  # type: ignore[arg-type]
    (store,) = [check async for check in checks if check.name == "stores"]
    return store


async def _waits(site: Installation, run: str) -> bool:
    told = (await site.status(run)).trouble or ""
    return "waiting for the store since" in told and _is_of_space(told)


def _is_of_space(told: str) -> bool:
    """Whether words name the cause: SQLite and the system have their own."""
    return "is full" in told or "No space left on device" in told


def _whole(home: Path) -> None:
    """No file is a part of what it should be, and the database is sound."""
    blobs = home / "blobs"
    assert not list((blobs / UNFINISHED).iterdir())
    for file in blobs.glob("??/*"):
        assert sha256(file.read_bytes()).hexdigest() == file.parent.name + file.name, file
    with closing(sqlite3.connect(home / "perdure.sqlite")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.long
async def test_a_full_disk_is_told_and_a_collection_on_it_makes_room(
    small: tuple[Installation, SmallDisk], holding: Holding
) -> None:
    site, disk = small
    async with site.worker():
        undisturbed = await results_of(site, await start_mixed(site))
        runs = await start_mixed(site, middle_s=HELD)
        await holding.begun(KINDS)
        spare = await site.parts.stores.blobs.put(os.urandom(SPARE))
        _age(site.home, spare)
        disk.fill()
        with pytest.raises(StoreAway) as refused:
            await try_writing(site.parts.stores, site.home)
        assert str(site.home) in refused.value.message
        assert "perdure gc" in refused.value.cure
        holding.release()
        for run in (run for kind, run in runs.items() if kind != "delegation"):  # its workers wait
            await eventually(lambda run=run: _waits(site, run))
        store = await _store_by_doctor(site)
        assert (store.state, _is_of_space(store.found)) == ("failed", True), store
        _whole(site.home)
        collected = await collect(
            site.parts.stores, site.gateway, site.parts.workspaces,
            now=utc_now(), dry_run=False,
        )  # fmt: skip
        assert (collected.blobs, collected.bytes) == (1, SPARE)
        assert await results_of(site, runs) == undisturbed
        disk.make_room()
        for kind, run in runs.items():
            if kind != "delegation":
                await check(site, run)
        _whole(site.home)
        assert (await _store_by_doctor(site)).state == "ok"


@pytest.mark.long
async def test_a_rule_of_retention_is_applied_with_the_room_that_blobs_made(
    small: tuple[Installation, SmallDisk],
) -> None:
    """The database on the full disk cannot delete a run before something else has gone."""
    site, disk = small
    async with site.worker():
        ended = await results_of(site, await start_mixed(site))
    assert ended
    spare = await site.parts.stores.blobs.put(os.urandom(SPARE))
    _age(site.home, spare)
    disk.fill()
    with pytest.raises(StoreAway):
        await try_writing(site.parts.stores, site.home)
    collected = await collect(
        site.parts.stores, site.gateway, site.parts.workspaces,
        now=utc_now() + timedelta(days=2), dry_run=False, young=timedelta(days=2) + LATER / 2,
        rules=read_rules("1d"),
    )  # fmt: skip
    assert collected.runs == KINDS
    assert collected.bytes >= SPARE
    assert await site.parts.stores.records.find_runs() == []
    disk.make_room()
    _whole(site.home)


def _age(home: Path, address: str) -> None:
    digits = address.partition(":")[2]
    old = (utc_now() - LATER).timestamp()
    os.utime(home / "blobs" / digits[:2] / digits[2:], (old, old))
