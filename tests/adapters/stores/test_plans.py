"""No statement that a start, a turn or an end needs grows with the number of runs there were.

All statements of a whole run of each kind are heard, and planned on a store with very many rows: a
plan that reads a growing table from one end to the other is refused.
"""

import json
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from grown import GROWING, grow
from installation import Installation, installation
from mixed import results_of, start_mixed
from postgresql import postgresql
from sqlalchemy import Engine, event
from sqlalchemy.ext.asyncio import AsyncConnection
from temporalio.testing import WorkflowEnvironment

from perdure.adapters.stores.database import Database

NAMES = frozenset(table.name for table in GROWING)
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
    with _hearing() as heard:
        async with site.worker():
            await results_of(site, await start_mixed(site, learn=True))
    assert len(heard.statements) > 30
    found: dict[str, list[str]] = {}
    async with database.read() as connection:
        for statement, parameters in heard.statements.items():
            if scanned := sorted(await _scanned(database, connection, statement, parameters)):
                found[statement] = scanned
    return found


async def _scanned(
    database: Database, connection: AsyncConnection, statement: str, parameters: object
) -> set[str]:
    if database.dialect_name == "sqlite":
        plan = await connection.exec_driver_sql(
            f"EXPLAIN QUERY PLAN {statement}",
            parameters,  # type: ignore[arg-type]
        )
        steps = [str(row.detail).split() for row in plan]
        return {step[1] for step in steps if step[0] == "SCAN" and step[1] in NAMES}
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
    by_index = node["Node Type"] in ("Index Scan", "Index Only Scan")
    return node["Node Type"] == "Seq Scan" or (by_index and "Index Cond" not in node)


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_no_statement_of_a_run_reads_a_growing_table_in_full(large: Installation) -> None:
    found = await _plans(large, rows=20_000)
    assert not found, json.dumps(found, indent=1)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
async def test_nor_after_a_million_runs(large: Installation) -> None:
    found = await _plans(large, rows=1_000_000)
    assert not found, json.dumps(found, indent=1)
