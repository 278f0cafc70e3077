"""Figures of the store for monitoring: running totals, and open runs."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import func, literal, select, text, union_all

from perdure.adapters.stores.call_totals import CallTotals
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import metadata, notices, run_totals, runs, schedule_starts
from perdure.domain.run.figures import CallSums, RunState

WHOLE = "all"
_SQLITE_SIZE = text("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
_POSTGRESQL_SIZES = text(
    "SELECT relname, pg_total_relation_size(oid) FROM pg_class"
    " WHERE relkind = 'r' AND relnamespace ="
    " (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
)
_ENDED = run_totals.c.kind, run_totals.c.lifecycle, run_totals.c.outcome
_OPEN = runs.c.kind, runs.c.lifecycle


class SqlFigures:
    """`StoreFigures` over tables of totals, and the index of open runs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._calls = CallTotals(database)

    async def runs(self) -> Mapping[RunState, int]:
        still_open = (
            select(*_OPEN, literal("").label("outcome"), func.count().label("number"))
            .where(runs.c.ended_at.is_(None))
            .group_by(*_OPEN)
        )
        kept = select(*_ENDED, run_totals.c.kept).where(run_totals.c.kept > 0)
        async with self._database.read() as connection:
            found = (await connection.execute(union_all(still_open, kept))).all()
        return {RunState(*words): int(count) for *words, count in found}

    async def ends(self) -> Mapping[RunState, int]:
        async with self._database.read() as connection:
            found = (await connection.execute(select(*_ENDED, run_totals.c.ends))).all()
        return {RunState(*words): int(count) for *words, count in found}

    async def count_calls(self, *, lost_before: datetime) -> bool:
        return await self._calls.count(lost_before=lost_before)

    async def calls(self) -> list[CallSums]:
        return await self._calls.totals()

    async def unsettled(self) -> list[CallSums]:
        return await self._calls.unsettled()

    async def dead_notices(self, *, since: datetime) -> int:
        given_up = notices.c.state == "dead", notices.c.ended_at >= since
        return await self._database.value(select(func.count()).where(*given_up)) or 0

    async def refused_starts(self, *, since: datetime) -> Mapping[str, int]:
        # No GROUP BY: with one, SQLite would scan all starts in the order of schedules.
        refused = schedule_starts.c.refused.is_not(None), schedule_starts.c.at >= since
        return Counter(
            await self._database.values(select(schedule_starts.c.schedule).where(*refused))
        )

    async def sizes(self) -> Mapping[str, int]:
        async with self._database.read() as connection:
            if self._database.dialect_name == "sqlite":
                return {WHOLE: int(await connection.scalar(_SQLITE_SIZE) or 0)}
            found = (await connection.execute(_POSTGRESQL_SIZES)).all()
        # The schema of the database may hold tables of others.
        return {name: int(size) for name, size in found if name in metadata.tables}
