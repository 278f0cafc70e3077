"""Schedules as rows, and the books of each month: a start is admitted under a lock."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from sqlalchemy import ColumnElement, RowMapping, Text, and_, case, func, literal, or_, select
from sqlalchemy import update as updating
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.attempts import was_sent
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import attempts, runs, schedule_starts, schedules
from perdure.domain.budget.envelope import BudgetLimits
from perdure.domain.foundation.names import learn_run_id
from perdure.domain.foundation.tolerance import read
from perdure.domain.schedules.admission import Admitted, MonthlySpend, TurnedAway, admission
from perdure.domain.schedules.plan import SchedulePlan, month_of
from perdure.domain.schedules.store import ScheduledStart, StoredSchedule

LOCK = "schedules"
# A start that was admitted and has no row yet is on its way; after this it never came.
ON_ITS_WAY = timedelta(hours=1)
_BETWEEN = " "


class SqlSchedules:
    """The port `ScheduleStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, plan: SchedulePlan, *, at: datetime, replace: bool) -> bool:
        told = plan.model_dump_json()
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            known = await _row(connection, plan.name)
            if known is not None and known["deleted_at"] is None and not replace:
                return read(SchedulePlan, known["plan"]) == plan
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

    async def get(self, name: str) -> StoredSchedule | None:
        async with self._database.read() as connection:
            row = await _row(connection, name)
        return None if row is None else _schedule(row)

    async def list(self) -> Sequence[StoredSchedule]:
        query = select(schedules).where(schedules.c.deleted_at.is_(None)).order_by(schedules.c.name)
        async with self._database.read() as connection:
            return [_schedule(row) for row in (await connection.execute(query)).mappings()]

    async def mark_deleted(self, name: str, *, at: datetime) -> bool:
        change = (
            updating(schedules)
            .where(schedules.c.name == name, schedules.c.deleted_at.is_(None))
            .values(deleted_at=at)
        )
        async with self._database.write() as connection:
            return bool((await connection.execute(change)).rowcount)

    async def admit(
        self, name: str, run: str, asked: BudgetLimits, *, at: datetime
    ) -> Admitted | TurnedAway | None:
        async with self._database.write() as connection:
            # The sum and the row that adds to it are one step: two starts at once would both see
            # the month as it was before either.
            await self._database.lock(connection, LOCK)
            known = await _row(connection, name)
            if known is None:
                return None
            if (given := await _given(connection, run)) is not None:
                return given
            plan = read(SchedulePlan, known["plan"])
            if plan.month.unlimited:
                found: Admitted | TurnedAway = Admitted(
                    cost_usd=asked.cost_usd or None, tokens=asked.tokens or None
                )
            else:
                spend = await self._spend(connection, plan, at=at, without=run)
                found = admission(plan.month, spend, asked)
            await self._keep(connection, name, run, found, at=at)
            return found

    async def spend(self, name: str, *, at: datetime) -> MonthlySpend:
        async with self._database.read() as connection:
            known = await _row(connection, name)
            if known is None:
                return MonthlySpend()
            return await self._spend(connection, read(SchedulePlan, known["plan"]), at=at)

    async def starts(self, name: str, *, limit: int = 20) -> Sequence[ScheduledStart]:
        query = (
            select(schedule_starts)
            .where(schedule_starts.c.schedule == name)
            .order_by(schedule_starts.c.at.desc(), schedule_starts.c.run.desc())
            .limit(limit)
        )
        async with self._database.read() as connection:
            return [
                ScheduledStart(run=row["run"], at=row["at"], refused=row["refused"] or "")
                for row in (await connection.execute(query)).mappings()
            ]

    async def refusals(self, name: str, *, at: datetime) -> int:
        async with self._database.read() as connection:
            known = await _row(connection, name)
            if known is None:
                return 0
            began, _ = month_of(at, read(SchedulePlan, known["plan"]).times.zone)
            query = select(func.count()).where(
                schedule_starts.c.schedule == name,
                schedule_starts.c.refused.is_not(None),
                schedule_starts.c.at >= began,
            )
            return int(await connection.scalar(query) or 0)

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
        row = {
            "run": run,
            "schedule": name,
            "at": at,
            "limit_usd": admitted.cost_usd,
            "limit_tokens": admitted.tokens,
            "lowered": admitted.lowered,
            "refused": found.why if isinstance(found, TurnedAway) else None,
        }
        insert = self._database.insert(schedule_starts).values(row)
        changed = {column: insert.excluded[column] for column in row if column != "run"}
        await connection.execute(
            insert.on_conflict_do_update(index_elements=("run",), set_=changed)
        )

    async def _spend(
        self, connection: AsyncConnection, plan: SchedulePlan, *, at: datetime, without: str = ""
    ) -> MonthlySpend:
        began, ended = month_of(at, plan.times.zone)
        spent = await self._booked(
            connection,
            _of_schedule(plan.name),
            attempts.c.started_at >= began,
            attempts.c.started_at < ended,
        )
        query = (
            select(schedule_starts)
            .outerjoin(runs, runs.c.id == schedule_starts.c.run)
            .where(
                schedule_starts.c.schedule == plan.name,
                schedule_starts.c.refused.is_(None),
                schedule_starts.c.run != without,
                or_(
                    and_(runs.c.id.is_not(None), runs.c.ended_at.is_(None)),
                    and_(runs.c.id.is_(None), schedule_starts.c.at > at - ON_ITS_WAY),
                ),
            )
        )
        held_usd, held_tokens, holding = Decimal(0), 0, 0
        for row in (await connection.execute(query)).mappings().all():
            own = await self._booked(connection, attempts.c.root == row["run"])
            left_usd = max((row["limit_usd"] or Decimal(0)) - own.cost_usd, Decimal(0))
            left_tokens = max((row["limit_tokens"] or 0) - own.tokens, 0)
            holding += bool(left_usd or left_tokens)
            held_usd, held_tokens = held_usd + left_usd, held_tokens + left_tokens
        return spent.model_copy(
            update={"held_usd": held_usd, "held_tokens": held_tokens, "holding": holding}
        )

    async def _booked(
        self, connection: AsyncConnection, *wanted: ColumnElement[bool]
    ) -> MonthlySpend:
        """What attempts booked; those in flight are part of what open runs hold."""
        usage = attempts.c.usage
        number = self._database.number_in
        counted = (
            number(usage, "input_tokens")
            + number(usage, "output_tokens")
            + number(usage, "cache_write_5m_tokens")
            + number(usage, "cache_write_1h_tokens")
        )
        unpriced = and_(was_sent(), attempts.c.cost_usd.is_(None))
        query = select(
            func.coalesce(func.sum(counted), 0).label("tokens"),
            func.coalesce(func.sum(case((unpriced, 1), else_=0)), 0).label("unpriced"),
            func.aggregate_strings(
                func.coalesce(attempts.c.cost_usd, "0", type_=Text), _BETWEEN
            ).label("costs"),
        ).where(attempts.c.state != "started", *wanted)
        row = (await connection.execute(query)).mappings().one()
        costs = (Decimal(text) for text in (row["costs"] or "0").split(_BETWEEN))
        return MonthlySpend(
            cost_usd=sum(costs, Decimal(0)),
            tokens=int(row["tokens"]),
            unpriced=bool(row["unpriced"]),
        )


def _of_schedule(name: str) -> ColumnElement[bool]:
    """The attempts of a schedule's runs, of all below them, and of the runs that learn from them.

    A learning run is a tree of its own, so that it outlives the run.
    """
    started = select(schedule_starts.c.run).where(schedule_starts.c.schedule == name)
    learning = select(literal(learn_run_id("")).concat(schedule_starts.c.run)).where(
        schedule_starts.c.schedule == name
    )
    return or_(attempts.c.root.in_(started), attempts.c.root.in_(learning))


async def _given(connection: AsyncConnection, run: str) -> Admitted | None:
    """What a run was given before: it has a row by now, so that its limits count."""
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


def _schedule(row: RowMapping) -> StoredSchedule:
    return StoredSchedule(
        plan=read(SchedulePlan, row["plan"]),
        created_at=row["created_at"],
        changed_at=row["changed_at"],
        deleted_at=row["deleted_at"],
    )
