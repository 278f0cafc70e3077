"""Figures of the store for monitoring: one statement each, however many runs there are."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import (
    ColumnElement,
    Double,
    RowMapping,
    Text,
    and_,
    case,
    cast,
    func,
    or_,
    select,
    text,
    true,
)

from perdure.adapters.stores.attempts import was_sent
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import attempts, metadata, runs
from perdure.domain.llm.usage import Usage
from perdure.domain.run.figures import CallSums, RunState

WHOLE = "all"
_SQLITE_SIZE = text("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
_POSTGRESQL_SIZES = text(
    "SELECT relname, pg_total_relation_size(oid) FROM pg_class"
    " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
)


class SqlFigures:
    """`StoreFigures` over the tables `runs` and `attempts`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def runs(self) -> Mapping[RunState, int]:
        state = runs.c.kind, runs.c.lifecycle, func.coalesce(runs.c.outcome, "")
        query = select(*state, func.count()).group_by(*state)
        async with self._database.read() as connection:
            found = (await connection.execute(query)).all()
        return {RunState(*words): int(count) for *words, count in found}

    async def calls(self, *, since: datetime | None, until: datetime | None) -> list[CallSums]:
        began, sent = attempts.c.started_at, was_sent()
        unconfirmed = or_(attempts.c.at_estimate, attempts.c.state.in_(("lost", "duplicate")))
        cost = cast(func.coalesce(attempts.c.cost_usd, "0", type_=Text), Double)
        tokens = (
            func.coalesce(func.sum(self._database.number_in(attempts.c.usage, name)), 0).label(name)
            for name in Usage.model_fields
        )
        query = (
            select(
                attempts.c.model,
                attempts.c.phase,
                _count(sent).label("calls"),
                _count(and_(sent, unconfirmed)).label("unconfirmed"),
                func.sum(cost).label("cost_usd"),
                *tokens,
            )
            .where(
                true() if since is None else began >= since,
                true() if until is None else began < until,
            )
            .group_by(attempts.c.model, attempts.c.phase)
        )
        async with self._database.read() as connection:
            return [_sums(row) for row in (await connection.execute(query)).mappings()]

    async def sizes(self) -> Mapping[str, int]:
        async with self._database.read() as connection:
            if self._database.dialect_name == "sqlite":
                return {WHOLE: int(await connection.scalar(_SQLITE_SIZE) or 0)}
            found = (await connection.execute(_POSTGRESQL_SIZES)).all()
        return {name: int(size) for name, size in found if name in metadata.tables}


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))


def _sums(row: RowMapping) -> CallSums:
    return CallSums(
        model=row["model"],
        phase=row["phase"],
        calls=int(row["calls"]),
        unconfirmed=int(row["unconfirmed"]),
        usage=Usage.model_validate({name: int(row[name]) for name in Usage.model_fields}),
        cost_usd=row["cost_usd"],
    )
