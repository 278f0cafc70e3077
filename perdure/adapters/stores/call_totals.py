"""Totals of all model calls: each attempt is added once, when it can no longer change.

So no total ever falls, even if the journal corrects an attempt later, and reading the totals takes
a few rows. The totals are kept in the store, so all processes share them.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, and_, bindparam, not_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.attempts import StoredAttempt
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import attempts, call_totals, replies
from perdure.domain.llm.usage import Usage
from perdure.domain.run.figures import CallSums, added_up

LOCK = "call totals"
PAGE = 1_000
_SUMS = ("calls", "unconfirmed", "input_tokens", "cache_read_tokens", "output_tokens", "cost_usd")
_KEY = tuple(attempts.primary_key.columns)
_COUNTED = (
    update(attempts)
    .where(*(column == bindparam(f"its_{column.name}") for column in _KEY))
    .values(counted=True)
)
_UNCOUNTED = attempts.c.counted.is_(False)
# A worker that was taken for dead may still report: see the journal.
_MAY_REPORT = and_(attempts.c.state == "lost", attempts.c.settled.is_not(True))


class CallTotals:
    """Adds rows of `attempts` to `call_totals`, and marks them as counted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def count(self, *, lost_before: datetime) -> bool:
        """Add a page of attempts; returns whether nothing is left to add.

        A lost attempt is counted once its key has a reply, its sum was reported, or it began before
        `lost_before`. What its worker reports later is not counted.
        """
        ended = and_(
            _UNCOUNTED,
            attempts.c.state != "started",
            or_(not_(_MAY_REPORT), attempts.c.started_at < lost_before),
        )
        waiting = and_(_UNCOUNTED, _MAY_REPORT, attempts.c.started_at >= lost_before)
        async with self._database.read() as connection:
            # Read first: totals must also work while the store accepts no writes.
            some = await connection.scalar(select(attempts.c.key).where(ended).limit(1))
            answered = await _answered(connection, waiting)
        if some is None and not answered:
            return True
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            rows = await _held(connection, ended)
            if answered:
                rows += await _held(connection, and_(waiting, attempts.c.key.in_(answered)))
            await self._add(connection, rows)
        # Rows that were skipped, as a step writes them, are left for the next look.
        return len(rows) < PAGE

    async def totals(self) -> list[CallSums]:
        """The totals of all counted attempts."""
        async with self._database.read() as connection:
            found = await connection.execute(select(call_totals))
            return [
                CallSums(
                    model=row.model,
                    phase=row.phase,
                    calls=row.calls,
                    unconfirmed=row.unconfirmed,
                    usage=Usage(
                        input_tokens=row.input_tokens,
                        cache_read_tokens=row.cache_read_tokens,
                        output_tokens=row.output_tokens,
                    ),
                    cost_usd=row.cost_usd,
                )
                for row in found
            ]

    async def unsettled(self) -> list[CallSums]:
        """Lost attempts that are not counted yet, by model, at their estimates."""
        # No GROUP BY: with one, SQLite would scan the whole journal in the order of models.
        query = select(attempts.c.model, attempts.c.cost_usd).where(_UNCOUNTED, _MAY_REPORT)
        async with self._database.read() as connection:
            lost = (
                CallSums(model=row.model, phase="", calls=1, cost_usd=float(row.cost_usd or 0))
                for row in await connection.execute(query)
            )
            return list(added_up(lost).values())

    async def _add(self, connection: AsyncConnection, rows: Sequence[StoredAttempt]) -> None:
        if not rows:
            return
        marks = [{f"its_{key.name}": getattr(row, key.name) for key in _KEY} for row in rows]
        await connection.execute(_COUNTED, marks)
        lines = [_values(line) for line in added_up(map(_sums, rows)).values()]
        new = self._database.insert(call_totals).values(lines)
        more = {name: call_totals.c[name] + new.excluded[name] for name in _SUMS}
        await connection.execute(
            new.on_conflict_do_update(index_elements=("model", "phase"), set_=more)
        )


async def _answered(connection: AsyncConnection, waiting: ColumnElement[bool]) -> list[str]:
    """The keys among these that have a reply, so that their figures are final."""
    lost = list(await connection.scalars(select(attempts.c.key).where(waiting).limit(PAGE)))
    if not lost:
        return []
    return list(await connection.scalars(select(replies.c.key).where(replies.c.key.in_(lost))))


async def _held(connection: AsyncConnection, wanted: ColumnElement[bool]) -> list[StoredAttempt]:
    # Rows that a step is writing now are skipped and counted next time, so neither side waits.
    query = select(attempts).where(wanted).order_by(attempts.c.started_at).limit(PAGE)
    found = await connection.execute(query.with_for_update(skip_locked=True))
    return [StoredAttempt.of(row) for row in found.mappings()]


def _sums(row: StoredAttempt) -> CallSums:
    if not row.sent:
        return CallSums(model=row.model, phase=row.phase)
    return CallSums(
        model=row.model,
        phase=row.phase,
        calls=1,
        unconfirmed=int(row.at_estimate or row.state in ("lost", "duplicate")),
        usage=row.usage,
        # A metric is a float anyway; exact sums are the ledger's.
        cost_usd=float(row.cost_usd or 0),
    )


def _values(line: CallSums) -> dict[str, str | float]:
    usage = line.usage
    return {
        "model": line.model,
        "phase": line.phase,
        "calls": line.calls,
        "unconfirmed": line.unconfirmed,
        "input_tokens": usage.prompt_tokens - usage.cache_read_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": line.cost_usd,
    }
