"""The monthly spend of schedules, kept as running sums: a start need not read a month of calls.

Database triggers write each change of an attempt of a schedule's runs into `schedule_bookings`, in
the transaction of the change, so no call waits for another. Later, under the lock of the schedule,
the bookings are added to the quarter hours of `schedule_spend` and to the sum of the start. So the
figures outlive the rows of the journal.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from sqlalchemy import RowMapping, bindparam, delete, exists, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.attempts import is_sent
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import runs, schedule_bookings, schedule_spend, schedule_starts
from perdure.domain.foundation.tolerance import read
from perdure.domain.llm.usage import Usage
from perdure.domain.schedules.admission import MonthlySpend
from perdure.domain.schedules.plan import SchedulePlan, month_of

PAGE = 500
MOST_PAGES = 10
QUARTER_MINUTES = 15  # zones are whole quarters of an hour off UTC, so a month begins with one
# An admitted start without a run row may still be on its way; after this time it never began.
ON_ITS_WAY = timedelta(hours=1)

_NO_ROW = ~exists().where(runs.c.id == schedule_starts.c.run)
_OWN = (
    update(schedule_starts)
    .where(schedule_starts.c.run == bindparam("its_run"))
    .values(spent_usd=bindparam("usd"), spent_tokens=bindparam("more"))
)


@dataclass(frozen=True, slots=True)
class _Sum:
    cost_usd: Decimal = Decimal(0)
    tokens: int = 0
    unpriced: int = 0

    def plus(self, other: "_Sum") -> "_Sum":
        return _Sum(
            self.cost_usd + other.cost_usd,
            self.tokens + other.tokens,
            self.unpriced + other.unpriced,
        )


class Books:
    """The books of all schedules; each method runs in the transaction of its caller."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def bring_up(self, connection: AsyncConnection, schedule: str) -> bool:
        """Add new bookings to the sums; the caller holds the lock of the schedule.

        Returns:
            False where more is left: the caller commits, and comes again. After an upgrade there
            may be a million, more than the time of one step allows.
        """
        its_own = schedule_bookings.c.schedule == schedule
        query = select(schedule_bookings).where(its_own).order_by(schedule_bookings.c.number)
        for _ in range(MOST_PAGES):
            page = (await connection.execute(query.limit(PAGE))).mappings().all()
            if not page:
                return True
            await self._add(connection, schedule, page)
            # Not up to the last number: a booking that is committed later may have a lower one.
            done = schedule_bookings.c.number.in_([row["number"] for row in page])
            await connection.execute(delete(schedule_bookings).where(done))
        return False

    async def give_up(self, connection: AsyncConnection, schedule: str, *, at: datetime) -> None:
        """Release what starts hold that never began."""
        never_came = (
            schedule_starts.c.schedule == schedule,
            schedule_starts.c.open.is_(True),
            schedule_starts.c.at <= at - ON_ITS_WAY,
            _NO_ROW,
        )
        await connection.execute(update(schedule_starts).where(*never_came).values(open=False))

    async def month(
        self, connection: AsyncConnection, plan: SchedulePlan, *, at: datetime, without: str = ""
    ) -> MonthlySpend:
        """The spend in the month of a moment, with bookings that are not yet added to the sums."""
        began, ended = month_of(at, plan.times.zone)
        quarters = schedule_spend.c.began >= began, schedule_spend.c.began < ended
        query = select(schedule_spend).where(schedule_spend.c.schedule == plan.name, *quarters)
        whole = _Sum()
        for row in (await connection.execute(query)).mappings():
            whole = whole.plus(_Sum(row["cost_usd"], row["tokens"], row["unpriced"]))
        query = select(schedule_bookings).where(schedule_bookings.c.schedule == plan.name)
        pending = (await connection.execute(query)).mappings().all()
        for row in pending:
            if began <= row["started_at"] < ended:
                whole = whole.plus(_booked(row))
        spent = MonthlySpend(
            cost_usd=whole.cost_usd, tokens=whole.tokens, unpriced=bool(whole.unpriced)
        )
        held = await self._held(connection, plan.name, _by_run(pending), at=at, without=without)
        return spent.model_copy(update=held)

    async def forget(self, connection: AsyncConnection, *, before: datetime) -> None:
        """Drop the quarter hours that began before a moment."""
        await connection.execute(delete(schedule_spend).where(schedule_spend.c.began < before))

    async def _held(
        self,
        connection: AsyncConnection,
        schedule: str,
        pending: Mapping[str, _Sum],
        *,
        at: datetime,
        without: str,
    ) -> dict[str, Decimal | int]:
        query = select(schedule_starts, _NO_ROW.label("no_row")).where(
            schedule_starts.c.schedule == schedule,
            schedule_starts.c.open.is_(True),
            schedule_starts.c.refused.is_(None),
            schedule_starts.c.run != without,
        )
        held_usd, held_tokens, holding = Decimal(0), 0, 0
        for row in (await connection.execute(query)).mappings():
            # As `give_up` would close it, but whoever only reads must not write.
            if row["no_row"] and row["at"] <= at - ON_ITS_WAY:
                continue
            own = _Sum(row["spent_usd"], row["spent_tokens"]).plus(pending.get(row["run"], _Sum()))
            left_usd = max((row["limit_usd"] or Decimal(0)) - own.cost_usd, Decimal(0))
            left_tokens = max((row["limit_tokens"] or 0) - own.tokens, 0)
            holding += bool(left_usd or left_tokens)
            held_usd, held_tokens = held_usd + left_usd, held_tokens + left_tokens
        return {"held_usd": held_usd, "held_tokens": held_tokens, "holding": holding}

    async def _add(
        self, connection: AsyncConnection, schedule: str, page: Sequence[RowMapping]
    ) -> None:
        quarters: defaultdict[datetime, _Sum] = defaultdict(_Sum)
        for row in page:
            began = _quarter(row["started_at"])
            quarters[began] = quarters[began].plus(_booked(row))
        known = select(schedule_spend).where(
            schedule_spend.c.schedule == schedule, schedule_spend.c.began.in_(quarters)
        )
        for row in (await connection.execute(known)).mappings():
            before = _Sum(row["cost_usd"], row["tokens"], row["unpriced"])
            quarters[row["began"]] = before.plus(quarters[row["began"]])
        rows = [
            {
                "schedule": schedule, "began": began, "cost_usd": one.cost_usd,
                "tokens": one.tokens, "unpriced": one.unpriced,
            }
            for began, one in quarters.items()
        ]  # fmt: skip
        new = self._database.insert(schedule_spend).values(rows)
        figures = {name: new.excluded[name] for name in ("cost_usd", "tokens", "unpriced")}
        await connection.execute(
            new.on_conflict_do_update(index_elements=("schedule", "began"), set_=figures)
        )
        await self._add_to_starts(connection, _by_run(page))

    async def _add_to_starts(self, connection: AsyncConnection, more: Mapping[str, _Sum]) -> None:
        known = select(schedule_starts).where(schedule_starts.c.run.in_(more))
        values = [
            {
                "its_run": row["run"],
                "usd": row["spent_usd"] + more[row["run"]].cost_usd,
                "more": row["spent_tokens"] + more[row["run"]].tokens,
            }
            for row in (await connection.execute(known)).mappings()
        ]
        if values:
            await connection.execute(_OWN, values)


def _by_run(rows: Sequence[RowMapping]) -> dict[str, _Sum]:
    """The spend of each started tree, without learning runs, which have budgets of their own."""
    found: dict[str, _Sum] = {}
    for row in rows:
        if row["root"] == row["run"]:
            found[row["run"]] = found.get(row["run"], _Sum()).plus(_booked(row))
    return found


def _booked(row: RowMapping) -> _Sum:
    usage = read(Usage, row["usage"])
    unpriced = row["cost_usd"] is None and is_sent(row["state"], row["estimate"])
    sign: int = row["sign"]
    # As budgets count tokens: cache reads cost money alone.
    tokens = (
        usage.input_tokens
        + usage.output_tokens
        + usage.cache_write_5m_tokens
        + usage.cache_write_1h_tokens
    )
    return _Sum(sign * (row["cost_usd"] or Decimal(0)), sign * tokens, sign * unpriced)


def _quarter(moment: datetime) -> datetime:
    utc = moment.astimezone(UTC)
    return utc.replace(minute=utc.minute - utc.minute % QUARTER_MINUTES, second=0, microsecond=0)
