"""A store that was restored to an earlier time, while the server went on: the procedure "Restore".

The copy is taken in the middle of runs, with their calls in flight, as `docs/backup.md` says:
the database first and the blobs after it.
"""

import shutil
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from holding import HELD, Holding
from installation import Installation, installation
from mixed import Told, at_rest, results_of, start_mixed, told
from temporalio.testing import WorkflowEnvironment

from perdure.domain.run.messages import Pause, Resume, Retry
from perdure.operations.gc import collect

Restore = Callable[[], None]
IN_FLIGHT = 2  # calls of a run at the moment of the copy: a delegation has two workers


def _copy_of_files(home: Path, copy: Path) -> Restore:
    copy.mkdir()
    with (
        closing(sqlite3.connect(home / "perdure.sqlite")) as source,
        closing(sqlite3.connect(copy / "perdure.sqlite")) as target,
    ):
        source.backup(target)
    shutil.copytree(home / "blobs", copy / "blobs")

    def restore() -> None:
        for file in home.glob("perdure.sqlite*"):
            file.unlink()
        shutil.rmtree(home / "blobs")
        shutil.copytree(copy, home, dirs_exist_ok=True)

    return restore


def _copy_of_tables(url: str) -> Restore:
    with psycopg.connect(url) as connection:
        named = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
        )
        tables = [str(name) for (name,) in named]
        kept: dict[str, list[tuple[object, ...]]] = {}
        columns: dict[str, list[str]] = {}
        for table in tables:
            found = connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
                " AND is_generated = 'NEVER' ORDER BY ordinal_position",
                (table,),
            )
            columns[table] = [str(name) for (name,) in found]
            names = ", ".join(f'"{name}"' for name in columns[table])
            kept[table] = connection.execute(f'SELECT {names} FROM "{table}"').fetchall()  # type: ignore[arg-type]

    def restore() -> None:
        with psycopg.connect(url) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute("TRUNCATE " + ", ".join(f'"{name}"' for name in tables))  # type: ignore[arg-type]
            for table, rows in kept.items():
                names = ", ".join(f'"{name}"' for name in columns[table])
                marks = ", ".join(["%s"] * len(columns[table]))
                statement = (
                    f'INSERT INTO "{table}" ({names}) OVERRIDING SYSTEM VALUE VALUES ({marks})'
                )
                connection.cursor().executemany(statement, rows)  # type: ignore[arg-type]

    return restore


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest) -> str | None:
    if request.param == "sqlite":
        return None
    return request.getfixturevalue("postgresql_url")


@asynccontextmanager
async def _opened(
    server: WorkflowEnvironment, home: Path, url: str | None
) -> AsyncGenerator[Installation]:
    address = server.client.service_client.config.target_host
    async with installation(home, address, database_url=url) as site:
        yield site


async def _plain(site: Installation, run: str) -> Told:
    """What a run came to: by itself, or after the retry that its account of the failure names."""
    result = await site.gateway.result(run)
    if result.outcome == "failed":
        assert "is not in this store" in (result.error or result.explanation)
        assert "perdure retry" in (result.error or result.explanation)
        await site.gateway.verb(run, Retry(note="restored"))
        result = await site.gateway.result(run)
    return told(result)


async def _books_agree(site: Installation, run: str) -> None:
    """Nothing is booked that the run does not count; what came after the copy may be missing.

    The call in flight at the copy was answered after it: the history has its reply, the journal at
    most that it was begun.
    """
    rows = await site.parts.stores.journal.tree(root=run, run=run)
    booked = sum(row.usage.counted_tokens() for row in rows)
    assert 0 < booked <= (await site.gateway.result(run)).spend.tokens, rows
    assert sum(row.state == "started" for row in rows) <= IN_FLIGHT, rows


async def _collect(site: Installation) -> None:
    parts, now = site.parts, datetime.now(UTC)
    nothing = timedelta(0)
    await collect(
        parts.stores, site.gateway, parts.workspaces, now=now, dry_run=False, young=nothing
    )


@pytest.mark.long
async def test_runs_of_a_restored_store_end_as_undisturbed_or_say_what_is_missing(
    server: WorkflowEnvironment, tmp_path: Path, url: str | None, holding: Holding
) -> None:
    home = tmp_path / "home"
    async with _opened(server, home, url) as site, site.worker():
        undisturbed = await results_of(site, await start_mixed(site))
        runs = await start_mixed(site, middle_s=HELD)
        await holding.begun(len(runs))
        restore = _copy_of_files(home, tmp_path / "copy") if url is None else _copy_of_tables(url)
        for run in runs.values():
            await site.gateway.verb(run, Pause(by="drill"))
        holding.release()
        await at_rest(site)
        late = await site.start({"kind": "agent", "goal": "late"}, {"replies": [{"text": "Late."}]})
        await site.gateway.result(late)
    restore()
    async with _opened(server, home, url) as site, site.worker():
        for run in runs.values():
            await site.gateway.verb(run, Resume(by="drill"))
        came_to = {kind: await _plain(site, run) for kind, run in runs.items()}
        for kind, known in undisturbed.items():
            assert (came_to[kind].outcome, came_to[kind].output) == (known.outcome, known.output)
            await _books_agree(site, runs[kind])
        # Calls whose end the copy does not know are booked as lost, and none stays open for ever.
        await _collect(site)
        for run in runs.values():
            rows = await site.parts.stores.journal.tree(root=run, run=run)
            assert all(row.state != "started" for row in rows), rows
            assert any(row.unconfirmed for row in rows), rows
        # A run that the restored store never heard of is told by the server.
        assert (await site.gateway.result(late)).outcome == "accepted"
        assert (await site.gateway.status(late)).lifecycle == "completed"
