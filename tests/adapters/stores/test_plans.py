"""No statement that a start, a turn, an end or a scrape needs grows with the runs there were.

All statements of a whole run of each kind, and of what is asked of the store meanwhile, are heard
and planned on a store with very many rows: a plan that reads a growing table from one end to the
other is refused. An index that holds open rows alone may be read in full.
"""

import json
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import cast

import pytest
from attempts import answer, attempt
from grown import GROWING, grow
from installation import Installation, installation
from mixed import results_of, start_mixed
from postgresql import postgresql
from remembering import episode
from sqlalchemy import Engine, event, text
from sqlalchemy.ext.asyncio import AsyncConnection
from temporalio.testing import WorkflowEnvironment

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.figures import SqlFigures
from perdure.adapters.stores.journal import SqlJournal
from perdure.adapters.stores.records import SqlRecords
from perdure.adapters.stores.schedules import SqlSchedules
from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.memory.entries import Origin
from perdure.domain.ports import RecordStore
from perdure.domain.retention.erasure import Tombstone
from perdure.domain.retention.rules import read_rules
from perdure.domain.run import metrics
from perdure.domain.run.figures import ServerLoad
from perdure.domain.run.status import StoredRun
from perdure.domain.schedules.admission import Admitted, TurnedAway
from perdure.domain.schedules.plan import MonthlyBudget, SchedulePlan, Times
from perdure.interfaces.gateways import RunGateway
from perdure.interfaces.installation_figures import InstallationFigures
from perdure.operations.expiry import Expired, expire, stone_of

NAMES = frozenset(table.name for table in GROWING)
# Partial indexes: a row leaves them when its run has ended, or its attempt was counted.
OF_OPEN_ROWS = frozenset(
    {"memory_unnoted", "runs_open", "attempts_uncounted", "schedule_starts_open"}
)
PLANNED = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")


@dataclass
class Heard:
    """Every statement once, with the values it was first executed with."""

    statements: dict[str, object] = field(default_factory=dict)

    def hear(self, _connection: object, _cursor: object, statement: str, *given: object) -> None:
        """Listen to what an engine is about to execute."""
        parameters = given[0]
        if given[2] and isinstance(parameters, Sequence):
            parameters = parameters[0]
        if statement.lstrip().upper().startswith(PLANNED):
            self.statements.setdefault(statement, parameters)


@contextmanager
def _hearing() -> Generator[Heard]:
    heard = Heard()
    event.listen(Engine, "before_cursor_execute", heard.hear)
    try:
        yield heard
    finally:
        event.remove(Engine, "before_cursor_execute", heard.hear)


@pytest.fixture(params=["sqlite", "postgresql"])
async def large(
    request: pytest.FixtureRequest, server: WorkflowEnvironment, tmp_path: Path
) -> AsyncIterator[Installation]:
    """An installation without workers on each store."""
    address = server.client.service_client.config.target_host
    if request.param == "sqlite":
        async with installation(tmp_path / "home", address) as made:
            yield made
        return
    with postgresql() as url:
        async with installation(tmp_path / "home", address, database_url=url) as made:
            yield made


async def _plans(site: Installation, rows: int) -> dict[str, list[str]]:
    """The statements of whole runs that read a growing table in full, with those tables."""
    database = site.parts.stores.database
    await grow(database, rows)
    async with database.write() as connection:
        # All these starts were of one schedule.
        await connection.execute(text("UPDATE schedule_starts SET schedule = 'news'"))
        await connection.execute(text("ANALYZE"))
    with _hearing() as heard:
        async with site.worker():
            await results_of(site, await start_mixed(site, learn=True))
        await _scraped(site)
        await _scheduled(database)
        assert await site.parts.stores.records.find_runs(prefix="x77.") == []
    for table in ("call_totals", "schedule_bookings", "schedule_spend"):
        assert any(table in statement for statement in heard.statements)
    assert len(heard.statements) > 30
    return await _scans(database, heard)


async def _scans(database: Database, heard: Heard) -> dict[str, list[str]]:
    """The statements that read a growing table in full, with those tables."""
    found: dict[str, list[str]] = {}
    async with database.read() as connection:
        for statement, parameters in heard.statements.items():
            if scanned := sorted(await _scanned(database, connection, statement, parameters)):
                found[statement] = scanned
    return found


async def _scraped(site: Installation) -> None:
    figures = SqlFigures(site.parts.stores.database)
    now = datetime.now(UTC)
    gateway = cast("RunGateway", Healthy())
    seen = await InstallationFigures(figures, gateway, now=lambda: now).look()
    assert seen[metrics.PART_UP]["store",] == 1
    assert sum(seen[metrics.MODEL_CALLS].values()) > 0


async def _scheduled(database: Database) -> None:
    """A schedule whose runs spend and end, and whose last start is refused."""
    store, records, now = SqlSchedules(database), SqlRecords(database), datetime.now(UTC)
    plan = SchedulePlan(
        name="news", kind="agent", task={"goal": "g"}, times=Times(every_s=3_600),
        month=MonthlyBudget(cost_usd=Decimal("0.01")),
    )  # fmt: skip
    await store.put(plan, at=now, replace=False)
    asked = BudgetLimits(cost_usd=Decimal("0.004"), tokens=None)
    for run in ("news-0", "news-1", "news-2"):
        assert isinstance(await store.admit("news", run, asked, at=now), Admitted)
        row = StoredRun(
            id=run, kind="agent", goal="g", label=None, lifecycle="running", outcome=None,
            started_at=now, ended_at=None,
        )  # fmt: skip
        await records.put_run(row)
        one = attempt(key=run, execution=run, run=run).model_copy(update={"root": run})
        await SqlJournal(database).begin(one)
        await answer(SqlJournal(database), one, tokens=4)
        await records.put_run(row.model_copy(update={"ended_at": now}))
    assert isinstance(await store.admit("news", "news-3", asked, at=now), TurnedAway)
    assert (await store.spend("news", at=now)).cost_usd == Decimal("0.012")
    await store.starts("news")


class Healthy:
    """A server with nothing to tell."""

    async def load(self) -> ServerLoad:
        return ServerLoad()


async def _scanned(
    database: Database, connection: AsyncConnection, statement: str, parameters: object
) -> set[str]:
    if database.dialect_name == "sqlite":
        plan = await connection.exec_driver_sql(
            f"EXPLAIN QUERY PLAN {statement}",
            parameters,  # type: ignore[arg-type]
        )
        steps = [str(row.detail).split() for row in plan]
        return {
            step[1]
            for step in steps
            if step[0] == "SCAN" and step[1] in NAMES and step[-1] not in OF_OPEN_ROWS
        }
    plan = await connection.exec_driver_sql(
        f"EXPLAIN (FORMAT JSON) {statement}",
        parameters,  # type: ignore[arg-type]
    )
    [told] = plan.scalar_one()
    return {str(node["Relation Name"]) for node in _nodes(told["Plan"]) if _reads_all(node)}


def _nodes(node: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    yield node
    for below in node.get("Plans", ()):  # type: ignore[attr-defined]
        yield from _nodes(below)


def _reads_all(node: Mapping[str, object]) -> bool:
    if node.get("Relation Name") not in NAMES:
        return False
    if node.get("Index Name") in OF_OPEN_ROWS:
        return False
    by_index = node["Node Type"] in ("Index Scan", "Index Only Scan")
    return node["Node Type"] == "Seq Scan" or (by_index and "Index Cond" not in node)


@pytest.mark.long
async def test_no_statement_of_a_run_reads_a_growing_table_in_full(large: Installation) -> None:
    found = await _plans(large, rows=20_000)
    assert not found, json.dumps(found, indent=1)


class _Server:
    """Drops what it is told; a real one would need an execution for each run."""

    def __init__(self, records: RecordStore) -> None:
        self._records = records

    async def expire(self, stones: Sequence[Tombstone], *, dry_run: bool = False) -> None:
        assert not dry_run
        for stone in stones:
            await self._records.delete_run(stone.run, stone=stone)


@pytest.mark.long
async def test_neither_does_a_statement_that_drops_what_a_rule_keeps_no_longer(
    large: Installation,
) -> None:
    stores, then = large.parts.stores, datetime.now(UTC) - timedelta(days=9)
    await grow(stores.database, 20_000)
    async with stores.database.write() as connection:
        # Most of them are roots that ended, and are kept by a rule of their own.
        await connection.execute(text("UPDATE runs SET parent = NULL WHERE started_at < '2021'"))
        await connection.execute(text("ANALYZE"))
    for run, parent in (("r", None), ("r.w1", "r"), ("s", None)):
        await stores.records.put_run(
            StoredRun(
                id=run, kind="agent", goal="g", label="old", lifecycle="completed",
                outcome="accepted", started_at=then, ended_at=then, parent=parent,
            )
        )  # fmt: skip
    server = cast("RunGateway", _Server(stores.records))
    rules = read_rules("7d label=old; keep")
    found = Expired()
    with _hearing() as heard:
        await expire(stores, server, rules, now=datetime.now(UTC), dry_run=False, found=found)
        await stores.records.open_runs()
        await stores.erasure().roots(after="x")
    assert (found.dropped, found.left) == (2, 0)
    scanned = await _scans(stores.database, heard)
    assert not scanned, json.dumps(scanned, indent=1)


@pytest.mark.long
async def test_neither_does_a_statement_that_erases_the_rows_of_a_tree(large: Installation) -> None:
    stores, now = large.parts.stores, datetime.now(UTC)
    await grow(stores.database, 20_000)
    async with stores.database.write() as connection:
        await connection.execute(text("UPDATE memory SET noted = true"))
        await connection.execute(text("ANALYZE"))
    for run, parent in (("r", None), ("r.w1", "r")):
        row = StoredRun(
            id=run, kind="agent", goal="g", label="old", lifecycle="completed", outcome="accepted",
            started_at=now, ended_at=now, parent=parent,
        )  # fmt: skip
        await stores.records.put_run(row)
    entry = episode("mine", "goal").model_copy(
        update={"origins": (Origin(run="r.w1", outcome="accepted"),)}
    )
    await stores.memory.put(entry)
    erasure = stores.erasure()
    with _hearing() as heard:
        await erasure.ask(["r"], at=now)
        rows = await erasure.tree("r")
        names = [row.id for row in rows]
        await erasure.addresses_of(names)
        await erasure.mark(
            [stone_of(row, "r", now, "erased") for row in rows], [], root="r", at=now
        )
        assert await erasure.marked_addresses("r") == set()
        assert (await erasure.drop(names)).episodes == 1
        await erasure.close_erasure("r")
        assert len(await erasure.tombstones("r")) == 2
    scanned = await _scans(stores.database, heard)
    assert not scanned, json.dumps(scanned, indent=1)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
async def test_nor_after_a_million_runs(large: Installation) -> None:
    found = await _plans(large, rows=1_000_000)
    assert not found, json.dumps(found, indent=1)
