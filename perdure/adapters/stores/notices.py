"""Notices as rows; several workers deliver them.

The port is `perdure.domain.run.notices.NoticeStore`.
"""

import json
from datetime import datetime

from sqlalchemy import RowMapping, and_, delete, func, or_, select, update

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import notices
from perdure.domain.run.notices import Notice, NoticePlace, NoticeState


class SqlNotices:
    """`NoticeStore` over one table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, notice: Notice) -> bool:
        new = self._database.insert(notices).values(_values(notice)).on_conflict_do_nothing()
        return await self._database.change(new) == 1

    async def notice(self, id: str) -> Notice | None:
        query = select(notices).where(notices.c.id == id)
        row = await self._database.row(query)
        return None if row is None else _notice(row)

    async def notices(
        self,
        state: NoticeState | None = None,
        *,
        limit: int = 100,
        after: NoticePlace | None = None,
    ) -> list[Notice]:
        row = notices.c
        query = select(notices).order_by(row.made_at.desc(), row.id).limit(limit)
        if after is not None:
            same = and_(row.made_at == after.made_at, row.id > after.id)
            query = query.where(or_(row.made_at < after.made_at, same))
        if state is not None:
            query = query.where(notices.c.state == state)
        return [_notice(row) for row in await self._database.rows(query)]

    async def counts(self) -> dict[NoticeState, int]:
        query = select(notices.c.state, func.count().label("number")).group_by(notices.c.state)
        async with self._database.read() as connection:
            rows = await connection.execute(query)
            return {row.state: row.number for row in rows}

    async def due(self, *, now: datetime, limit: int) -> list[Notice]:
        query = select(notices).where(notices.c.state == "waiting", notices.c.due_at <= now)
        query = query.order_by(notices.c.due_at, notices.c.id).limit(limit)
        return [_notice(row) for row in await self._database.rows(query)]

    async def claim(self, notice: Notice, *, until: datetime) -> bool:
        # The number of attempts is compared and raised, so of two workers only one succeeds.
        same = (notices.c.id == notice.id, notices.c.state == "waiting")
        change = (
            update(notices)
            .where(*same, notices.c.attempts == notice.attempts)
            # Due again at `until`: if this worker dies over the notice, another one delivers it.
            .values(attempts=notice.attempts + 1, due_at=until)
        )
        return await self._database.change(change) == 1

    async def settle(self, notice: Notice) -> None:
        change = update(notices).where(notices.c.id == notice.id)
        # Whose lease ran out must not undo what others did since; but what was taken, was taken.
        if notice.state != "delivered":
            own = notices.c.state == "waiting", notices.c.attempts == notice.attempts
            change = change.where(*own)
        await self._database.change(change.values(_values(notice)))

    async def renew(self, notice: Notice, *, seen: Notice) -> bool:
        row = notices.c
        change = update(notices).where(
            row.id == seen.id,
            row.state == seen.state,
            row.attempts == seen.attempts,
            row.ended_at == seen.ended_at,
        )
        return await self._database.change(change.values(_values(notice))) == 1

    async def forget(self, *, before: datetime) -> int:
        # A waiting notice has no end, and NULL is never less than a time.
        change = delete(notices).where(notices.c.ended_at < before)
        return await self._database.change(change)


def _values(notice: Notice) -> dict[str, object]:
    return {**notice.model_dump(exclude={"event"}), "event": json.dumps(notice.event)}


def _notice(row: RowMapping) -> Notice:
    values = {str(name): value for name, value in row.items()}
    return Notice.model_validate({**values, "event": json.loads(str(values["event"]))})
