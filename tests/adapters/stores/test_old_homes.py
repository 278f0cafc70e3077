"""Stores that earlier versions wrote open with this one, and tell the same."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perdure.adapters.stores.migrations import migrations
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.turns.records import IterationRecord

FIRST = Path(__file__).parent / "old" / "first_release.sql"
RUN = "refine-old"
# Verdicts came to some stores before the columns to start again from did.
WITHOUT_THE_THIRD = """
ALTER TABLE runs DROP COLUMN spec;
ALTER TABLE runs DROP COLUMN state;
DELETE FROM schema_versions WHERE number = 3;
"""


async def check(stores: Stores) -> None:
    """A run of the first release is all there, and what came later is empty."""
    records = [
        IterationRecord.model_validate_json(text) for text in await stores.records.records(RUN)
    ]
    assert [record.score for record in records] == [0.5, 0.6, 0.9]
    run = await stores.records.run(RUN)
    assert run is not None
    assert await stores.memory.list() == []


@pytest.mark.parametrize("gap", ["", WITHOUT_THE_THIRD], ids=["first release", "a gap"])
async def test_an_old_store_is_migrated(tmp_path: Path, gap: str) -> None:
    file = tmp_path / "perdure.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(FIRST.read_text(encoding="utf-8"))
    if gap:
        await (await open_stores(tmp_path)).close()
        with closing(sqlite3.connect(file)) as connection:
            connection.executescript(gap)
    stores = await open_stores(tmp_path)
    try:
        await check(stores)
    finally:
        await stores.close()
    with closing(sqlite3.connect(file)) as connection:
        numbers = {number for (number,) in connection.execute("SELECT number FROM schema_versions")}
        columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(runs)")}
    assert numbers == {step.number for step in migrations("sqlite")}
    assert {"spec", "state"} <= columns
