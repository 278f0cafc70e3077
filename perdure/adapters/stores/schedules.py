"""Schedules as rows, with the spend of each month; starts are admitted under a lock."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from sqlalchemy import RowMapping, delete, func, select
from sqlalchemy import update as updating
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.schedule_books import Books
from perdure.adapters.stores.tables import runs, schedule_starts, schedules
from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.foundation.errors import Unreadable
from perdure.domain.foundation.tolerance import read_stored
from perdure.domain.schedules.admission import Admitted, MonthlySpend, TurnedAway, admission
from perdure.domain.schedules.plan import SchedulePlan, month_of
from perdure.domain.schedules.store import ScheduledStart, StoredSchedule, UnreadableSchedule

LOCK = "schedules"
MORE: Literal["more"] = "more"


class SqlSchedules:
    """The port `ScheduleStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._books = Books(database)

    async def put(self, plan: SchedulePlan, *, at: datetime, replace: bool) -> bool:
        told = plan.model_dump_json()
        async with self._database.write() as connection:
            await self._lock(connection, plan.name)
            known = await _row(connection, plan.name)
            if known is not None and known["deleted_at"] is None and not replace:
                return _plan(known) == plan
            row = {
                "name": plan.name,
                "plan": told,
                "created_at": at,
                "changed_at": at,
                "deleted_at": None,
            }
            insert = self._database.insert(schedules).values(row)
            kept = {"created_at"} if known is not None and known["deleted_at"] is None else set()
            changed = {name: insert.excluded[name] for name in row if name not in {"name"} | kept}
            await connection.execute(
                insert.on_conflict_do_update(index_elements=("name",), set_=changed)
            )
            return True

    async def take_back(self, plan: SchedulePlan, *, former: StoredSchedule | None) -> None:
        same = schedules.c.name == plan.name
        async with self._database.write() as connection:
            await self._lock(connection, plan.name)
            known = await _row(connection, plan.name)
            # Only if nobody else has changed it since.
            if known is None or known["deleted_at"] is not None or _plan(known) != plan:
                return
            if former is None:
                await connection.execute(delete(schedules).where(same))
                return
            row = former.model_dump(include={"created_at", "changed_at", "deleted_at"})
            row["plan"] = former.plan.model_dump_json()
            await connection.execute(updating(schedules).where(same).values(row))

    async def get(self, name: str) -> StoredSchedule | None:
        async with self._database.read() as connection:
            row = await _row(connection, name)
        return None if row is None else _schedule(row)

    async def list(self) -> Sequence[StoredSchedule | UnreadableSchedule]:
        query = select(schedules).where(schedules.c.deleted_at.is_(None)).order_by(schedules.c.name)
        return [_listed(row) for row in await self._database.rows(query)]

    async def mark_deleted(self, name: str, *, at: datetime) -> bool:
        change = (
            updating(schedules)
            .where(schedules.c.name == name, schedules.c.deleted_at.is_(None))
            .values(deleted_at=at)
        )
        return bool(await self._database.change(change))

    async def admit(
        self, name: str, run: str, asked: BudgetLimits, *, at: datetime
    ) -> Admitted | TurnedAway | None:
        while True:
            found = await self._admitted(name, run, asked, at=at)
            if found != MORE:
                return found

    async def _admitted(
        self, name: str, run: str, asked: BudgetLimits, *, at: datetime
    ) -> Admitted | TurnedAway | Literal["more"] | None:
        """Admit in one transaction; `MORE` where it only added a part of the bookings."""
        async with self._database.write() as connection:
            # Read the sum and add to it under one lock. Otherwise two starts at once could both
            # see the month without the other.
            await self._lock(connection, name)
            known = await _row(connection, name)
            if known is None:
                return None
            if not await self._books.bring_up(connection, name):
                return MORE
            if (given := await _given(connection, run)) is not None:
                return given
            plan = _plan(known)
            if plan.month.unlimited:
                found: Admitted | TurnedAway = Admitted(
                    cost_usd=asked.cost_usd or None, tokens=asked.tokens or None
                )
            else:
                await self._books.give_up(connection, name, at=at)
                spend = await self._books.month(connection, plan, at=at, without=run)
                found = admission(plan.month, spend, asked)
            await self._keep(connection, name, run, found, at=at)
            return found

    async def spend(self, name: str, *, at: datetime) -> MonthlySpend:
        # One state, or bookings that `admit` adds meanwhile would be in neither of what is read.
        async with self._database.snapshot() as connection:
            known = await _row(connection, name)
            if known is None:
                return MonthlySpend()
            return await self._books.month(connection, _plan(known), at=at)

    async def starts(self, name: str, *, limit: int = 20) -> Sequence[ScheduledStart]:
        query = (
            select(schedule_starts.c.run, schedule_starts.c.at, schedule_starts.c.refused)
            .where(schedule_starts.c.schedule == name)
            .order_by(schedule_starts.c.at.desc(), schedule_starts.c.run.desc())
            .limit(limit)
        )
        return [
            ScheduledStart(run=row["run"], at=row["at"], refused=row["refused"] or "")
            for row in await self._database.rows(query)
        ]

    async def refusals(self, name: str, *, at: datetime) -> int:
        async with self._database.read() as connection:
            known = await _row(connection, name)
            if known is None:
                return 0
            began, _ = month_of(at, _plan(known).times.zone)
            query = select(func.count()).where(
                schedule_starts.c.schedule == name,
                schedule_starts.c.refused.is_not(None),
                schedule_starts.c.at >= began,
            )
            return int(await connection.scalar(query) or 0)

    async def bring_up(self, *, forget_before: datetime) -> None:
        # Deleted ones too, since their open runs go on spending.
        names = await self._database.values(select(schedules.c.name))
        for name in names:
            while not await self._brought_up(name):
                pass
        async with self._database.write() as connection:
            await self._books.forget(connection, before=forget_before)

    async def _brought_up(self, name: str) -> bool:
        async with self._database.write() as connection:
            await self._lock(connection, name)
            return await self._books.bring_up(connection, name)

    async def _lock(self, connection: AsyncConnection, name: str) -> None:
        # Workers of earlier versions take this lock exclusively. Sharing it excludes only them.
        await self._database.lock(connection, LOCK, shared=True)
        await self._database.lock(connection, f"schedule {name}")

    async def _keep(
        self,
        connection: AsyncConnection,
        name: str,
        run: str,
        found: Admitted | TurnedAway,
        *,
        at: datetime,
    ) -> None:
        admitted = found if isinstance(found, Admitted) else Admitted(cost_usd=None, tokens=None)
        # Without the spend columns: what an earlier start of this id spent stays counted.
        row = {
            "run": run,
            "schedule": name,
            "at": at,
            "limit_usd": admitted.cost_usd,
            "limit_tokens": admitted.tokens,
            "lowered": admitted.lowered,
            "refused": found.why if isinstance(found, TurnedAway) else None,
            "open": isinstance(found, Admitted),
        }
        insert = self._database.insert(schedule_starts).values(row)
        # A start of this id may have been refused before, or never have begun.
        changed = {column: insert.excluded[column] for column in row if column != "run"}
        await connection.execute(
            insert.on_conflict_do_update(index_elements=("run",), set_=changed)
        )


async def _given(connection: AsyncConnection, run: str) -> Admitted | None:
    """What an open run was admitted with before; None if it was refused or has no row."""
    query = (
        select(schedule_starts)
        .join(runs, runs.c.id == schedule_starts.c.run)
        .where(
            schedule_starts.c.run == run,
            schedule_starts.c.refused.is_(None),
            runs.c.ended_at.is_(None),
        )
    )
    row = (await connection.execute(query)).mappings().first()
    if row is None:
        return None
    return Admitted(
        cost_usd=row["limit_usd"], tokens=row["limit_tokens"], lowered=bool(row["lowered"])
    )


async def _row(connection: AsyncConnection, name: str) -> RowMapping | None:
    found = await connection.execute(select(schedules).where(schedules.c.name == name))
    return found.mappings().first()


def _plan(row: RowMapping) -> SchedulePlan:
    name = row["name"]
    return read_stored(
        SchedulePlan,
        row["plan"],
        what=f"the schedule {name}",
        cure=f"Run the version that wrote it, or delete it: perdure schedule delete {name}",
    )


def _listed(row: RowMapping) -> StoredSchedule | UnreadableSchedule:
    try:
        return _schedule(row)
    except Unreadable as error:
        return UnreadableSchedule(name=row["name"], why=f"{error.message} {error.cure}")


def _schedule(row: RowMapping) -> StoredSchedule:
    return StoredSchedule(
        plan=_plan(row),
        created_at=row["created_at"],
        changed_at=row["changed_at"],
        deleted_at=row["deleted_at"],
    )
