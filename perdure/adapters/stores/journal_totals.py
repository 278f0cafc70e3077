"""Adds up journal rows whose runs are gone and deletes them; the sums of all runs stay the same.

A row and its reply are deleted in the transaction that adds the row to `spend_totals`. Only final
rows are deleted: the row is counted (see `call_totals`), its run and the root of its tree have no
row any more, and it is older than the time for which the journal is kept.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    Text,
    and_,
    case,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.attempts import StoredAttempt
from perdure.adapters.stores.columns import UtcTime
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import attempts, replies, runs, spend_totals, tombstones
from perdure.domain.budget.spend_report import Period, SpendCell, SpendFilter, SpendKey, SpendLine
from perdure.domain.foundation.names import learn_run_id
from perdure.domain.llm.usage import Usage

LOCK = "journal totals"
PAGE = 500
LEARNING = learn_run_id("")
TOKENS = tuple(Usage.model_fields)
_KEY = (attempts.c.key, attempts.c.attempt, attempts.c.opening)
# Unique, since a page goes on behind the last row of the one before.
_ORDER = (attempts.c.started_at, *_KEY)
_NAMES = ("day", "model", "phase", "kind", "label", "learning", "unconfirmed")
_FIGURES = ("calls", "unpriced_calls", "estimated_calls", "cost_usd", "seconds", *TOKENS)


@dataclass(slots=True)
class _Total:
    names: dict[str, str | bool | None]
    line: SpendLine = field(default_factory=SpendLine)

    def id(self, database: Database) -> str:
        """An id that depends only on the names; with a key, the label enters as a digest."""
        label = self.names["label"]
        told = {**self.names, "label": None if label is None else database.cells.digest(str(label))}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


class JournalTotals:
    """Moves rows of the journal into the table `spend_totals`, and reads it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def roll_up(self, *, before: datetime) -> int:
        """Add up and delete rows that began before a moment and whose runs are gone.

        Returns:
            How many rows were deleted.
        """
        rolled, last = 0, None
        while page := await self._page(before, last):
            last = page[-1]
            async with self._database.write() as connection:
                # Each sum is read, raised and written back: two roll-ups at once would lose some.
                await self._database.lock(connection, LOCK)
                rolled += await self._take(connection, page, before)
        return rolled

    async def lines(
        self, connection: AsyncConnection, by: SpendKey, period: Period, only: SpendFilter
    ) -> list[SpendLine]:
        """Sums of deleted rows by the values of one column, for calls that began on these days.

        Their runs are no longer known: by run and by owner, all have no name.
        """
        days = (
            spend_totals.c.day >= period.since.isoformat(),
            spend_totals.c.day <= period.until.isoformat(),
        )
        # In the snapshot of the caller: a roll-up moves rows from the table that it reads besides.
        found = await connection.execute(select(spend_totals).where(*days))
        # Labels may be encrypted, so they are compared here and not by the query.
        return [
            _line(row, name=None if by in ("run", "owner") else row[by])
            for row in found.mappings()
            if only.model in (None, row["model"])
            and only.takes(kind=row["kind"], label=row["label"], owner=None)
        ]

    async def cells(self, connection: AsyncConnection) -> list[SpendCell]:
        """Sums of deleted rows by all names of a cell."""
        found = await connection.execute(select(spend_totals))
        names = ("phase", "model", "day", "learning", "unconfirmed")
        return [
            SpendCell.model_validate({**{name: row[name] for name in names}, "line": _line(row)})
            for row in found.mappings()
        ]

    async def _page(
        self, before: datetime, last: Sequence[object] | None
    ) -> Sequence[Sequence[object]]:
        query = select(*_ORDER).where(_gone(before)).order_by(*_ORDER).limit(PAGE)
        if last is not None:
            began, key, *numbers = last
            after = tuple_(
                literal(began, UtcTime), literal(key, Text), *(literal(one) for one in numbers)
            )
            query = query.where(tuple_(*_ORDER) > after)
        async with self._database.read() as connection:
            return [tuple(row) for row in await connection.execute(query)]

    async def _take(
        self, connection: AsyncConnection, page: Sequence[Sequence[object]], before: datetime
    ) -> int:
        keys = [tuple(row[1:]) for row in page]
        own = tuple_(replies.c.key, replies.c.attempt, replies.c.opening)
        # Check again: a run of this name may have begun since. Then its rows and replies stay.
        still = select(*_KEY).where(tuple_(*_KEY).in_(keys), _gone(before))
        # Replies go first: which ones is looked up in the rows that go next.
        await connection.execute(delete(replies).where(own.in_(still)))
        gone = delete(attempts).where(tuple_(*_KEY).in_(keys), _gone(before)).returning(*attempts.c)
        rows = [StoredAttempt.of(row) for row in (await connection.execute(gone)).mappings()]
        totals = await self._added_up(connection, rows)
        for total in totals:
            await self._add(connection, total)
        return len(rows)

    async def _added_up(
        self, connection: AsyncConnection, rows: Sequence[StoredAttempt]
    ) -> list[_Total]:
        causes = {row.root: row.root.removeprefix(LEARNING) for row in rows}
        asked = {*causes, *causes.values()}
        query = select(tombstones).where(tombstones.c.run.in_(asked))
        stones = {row["run"]: row for row in (await connection.execute(query)).mappings()}
        totals: dict[str, _Total] = {}
        for row in rows:
            stone, cause = stones.get(row.root), stones.get(causes[row.root])
            # Somebody may call a run like one that learned: first its own label, as in the ledger.
            labels = [one["label"] for one in (stone, cause) if one is not None and one["label"]]
            one = _Total(
                names={
                    "day": row.started_at.isoformat()[:10],
                    "model": row.model,
                    "phase": row.phase,
                    "kind": None if stone is None else stone["kind"],
                    "label": labels[0] if labels else None,
                    "learning": row.run.startswith(LEARNING),
                    "unconfirmed": row.at_estimate or row.state in ("lost", "duplicate"),
                }
            )
            known = totals.setdefault(one.id(self._database), one)
            known.line = known.line.plus(_of(row))
        return list(totals.values())

    async def _add(self, connection: AsyncConnection, total: _Total) -> None:
        id = total.id(self._database)
        query = select(spend_totals).where(spend_totals.c.id == id)
        known = (await connection.execute(query)).mappings().first()
        line = total.line if known is None else _line(known).plus(total.line)
        figures = {
            "calls": line.calls,
            "unpriced_calls": line.unpriced_calls,
            "estimated_calls": line.estimated_calls,
            "cost_usd": line.known_cost_usd,
            "seconds": line.seconds,
            **line.usage.model_dump(),
        }
        new = self._database.insert(spend_totals).values({"id": id, **total.names, **figures})
        changed = {name: new.excluded[name] for name in _FIGURES}
        await connection.execute(new.on_conflict_do_update(index_elements=("id",), set_=changed))


def _gone(before: datetime) -> ColumnElement[bool]:
    """Final rows of runs that are gone."""
    # A learning run has no row of its own: it is gone when the run that it looks back at is.
    of = case(
        (
            attempts.c.root.startswith(LEARNING, autoescape=True),
            func.substr(attempts.c.root, len(LEARNING) + 1),
        ),
        else_=attempts.c.root,
    )
    return and_(
        attempts.c.started_at < before,
        attempts.c.counted.is_(True),
        attempts.c.state != "started",
        or_(attempts.c.state != "lost", attempts.c.settled.is_(True)),
        ~exists().where(runs.c.id == attempts.c.root),
        # A child may outlive the root of its tree, so its own row counts too.
        ~exists().where(runs.c.id == attempts.c.run),
        ~exists().where(runs.c.id == of),
    )


def _of(row: StoredAttempt) -> SpendLine:
    unconfirmed = row.at_estimate or row.state in ("lost", "duplicate")
    return SpendLine(
        calls=int(row.sent),
        unpriced_calls=int(row.sent and row.cost_usd is None),
        estimated_calls=int(row.sent and unconfirmed),
        usage=row.usage,
        known_cost_usd=row.cost_usd or Decimal(0),
        seconds=row.seconds,
    )


def _line(row: RowMapping, name: str | None = None) -> SpendLine:
    return SpendLine(
        name=name,
        calls=row["calls"],
        unpriced_calls=row["unpriced_calls"],
        estimated_calls=row["estimated_calls"],
        usage=Usage.model_validate({token: row[token] for token in TOKENS}),
        known_cost_usd=row["cost_usd"],
        seconds=row["seconds"],
    )
