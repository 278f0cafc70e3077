"""The audit trail, in both databases."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from perdure.adapters.stores.access import SqlAudit
from perdure.adapters.stores.database import Database
from perdure.domain.run.audit import AuditEntry, AuditFilter, AuditPlace

# Old enough to be forgotten: the database keeps what is younger than a year.
NOW = datetime(2024, 1, 2, 3, 4, 5, 678901, UTC)
LATER = NOW + timedelta(hours=2)


@pytest.fixture
def audit(database: Database) -> SqlAudit:
    return SqlAudit(database)


def entry(id: str, *, hours: float = 0, **more: object) -> AuditEntry:
    at = NOW + timedelta(hours=hours)
    values = {"action": "answer", "outcome": "asked", "who": "ann", "run": "r1", "about": "g1"}
    return AuditEntry.model_validate({"id": id, "at": at, "last_at": at, **values, **more})


async def test_an_entry_is_settled_by_a_further_row(audit: SqlAudit) -> None:
    await audit.put(entry("a"))
    await audit.put(entry("a", hours=1, outcome="refused", about="g1: closed", count=0))
    (kept,) = await audit.entries(AuditFilter())
    assert (kept.at, kept.last_at) == (NOW, NOW + timedelta(hours=1))
    assert (kept.outcome, kept.about, kept.count) == ("refused", "g1: closed", 1)


async def test_counts_of_many_at_once_add_up(audit: SqlAudit) -> None:
    same: dict[str, Any] = {"action": "login", "outcome": "refused", "run": None}
    await asyncio.gather(*(audit.put(entry("a", count=2, **same)) for _ in range(8)))
    (kept,) = await audit.entries(AuditFilter())
    assert kept.count == 16


async def test_an_entry_of_a_later_version_hides_no_others(audit: SqlAudit) -> None:
    await audit.put(entry("a"))
    await audit.put(entry("b", hours=1, action="invented_later"))
    assert [kept.action for kept in await audit.entries(AuditFilter())] == [
        "invented_later",
        "answer",
    ]


FILTERS = {
    "by run": (AuditFilter(run="r2"), ["c"]),
    "by who": (AuditFilter(who="bob"), ["b"]),
    "by action": (AuditFilter(action="amend"), ["c"]),
    "by outcome": (AuditFilter(outcome="asked"), ["c", "b", "a"]),
    "since": (AuditFilter(since=NOW + timedelta(hours=1)), ["c", "b"]),
    "a page": (AuditFilter(limit=1, place=AuditPlace(mark=99, last_at=LATER, id="c")), ["b"]),
}


@pytest.mark.parametrize(("wanted", "ids"), FILTERS.values(), ids=FILTERS)
async def test_the_newest_that_fit_come_first(
    audit: SqlAudit, wanted: AuditFilter, ids: list[str]
) -> None:
    await audit.put(entry("a"))
    await audit.put(entry("b", hours=1, who="bob"))
    await audit.put(entry("c", hours=2, run="r2", action="amend"))
    assert [kept.id for kept in await audit.entries(wanted)] == ids


async def test_pages_show_the_trail_as_it_stood(audit: SqlAudit) -> None:
    for number in range(5):
        await audit.put(entry(f"e{number}", hours=number // 2))
    before = await audit.entries(AuditFilter())
    place, seen = AuditPlace(mark=await audit.mark()), list[AuditEntry]()
    while page := await audit.entries(AuditFilter(limit=2, place=place)):
        seen += page
        place = place.behind(page[-1])
        # Meanwhile the oldest goes on, which makes it the newest, and another one comes.
        await audit.put(entry("e0", hours=9, outcome="allowed", count=1))
        await audit.put(entry(f"new{len(seen)}", hours=9))
    assert seen == before
    assert [one.id for one in await audit.entries(AuditFilter(limit=1))] == ["e0"]


async def test_old_entries_are_forgotten(audit: SqlAudit) -> None:
    await audit.put(entry("old"))
    await audit.put(entry("new", hours=2))
    assert await audit.forget(before=NOW + timedelta(hours=1)) == 1
    assert [kept.id for kept in await audit.entries(AuditFilter())] == ["new"]


YOUNG: dict[str, Any] = {"at": datetime.now(UTC), "last_at": datetime.now(UTC)}
FORGERIES = {
    "another outcome": "UPDATE audit SET outcome = 'allowed'",
    "another name": "UPDATE audit SET who = 'bob'",
    "no run": "UPDATE audit SET run = NULL",
    "other words": "UPDATE audit SET about = 'nothing'",
    "an earlier time": "UPDATE audit SET last_at = '2020-01-01T00:00:00.000000+00:00'",
    "gone": "DELETE FROM audit",
    "gone by its name": "DELETE FROM audit WHERE who = 'ann'",
}


@pytest.mark.parametrize("sql", FORGERIES.values(), ids=FORGERIES)
async def test_the_database_refuses_to_change_what_was_written(
    audit: SqlAudit, database: Database, sql: str
) -> None:
    await audit.put(entry("a", outcome="refused", **YOUNG))
    before = await audit.entries(AuditFilter())
    with pytest.raises(Exception, match="append-only"):
        async with database.write() as connection:
            await connection.execute(text(sql))
    assert await audit.entries(AuditFilter()) == before


async def test_postgresql_refuses_to_empty_it(audit: SqlAudit, database: Database) -> None:
    if database.dialect_name == "sqlite":
        return  # it has no TRUNCATE
    await audit.put(entry("a", **YOUNG))
    with pytest.raises(Exception, match="append-only"):
        async with database.write() as connection:
            await connection.execute(text("TRUNCATE audit"))
    assert len(await audit.entries(AuditFilter())) == 1


async def test_what_is_young_is_never_forgotten(audit: SqlAudit) -> None:
    await audit.put(entry("a", **YOUNG))
    with pytest.raises(Exception, match="append-only"):
        await audit.forget(before=datetime.now(UTC) + timedelta(days=1))
    assert len(await audit.entries(AuditFilter())) == 1


async def test_words_can_be_encrypted_again_and_nothing_else(
    audit: SqlAudit, database: Database
) -> None:
    await audit.put(entry("a", about="plain", **YOUNG))
    async with database.write() as connection:
        with pytest.raises(Exception, match="append-only"):
            await connection.execute(text("UPDATE audit SET about = '\x01sealed:AAAA'"))
