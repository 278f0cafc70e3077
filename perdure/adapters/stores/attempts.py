"""Rows of the table `attempts`: reading, booking and summing them inside a transaction.

Usage counts as confirmed if the provider reported it for an attempt that was used or that failed.
It counts as unconfirmed if it is an estimate, or if another reply came first.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal, Self

from pydantic import JsonValue
from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    and_,
    bindparam,
    case,
    cast,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.engine import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.tables import attempts
from perdure.domain.budget.journal import Attempt, AttemptRow, CallProgress
from perdure.domain.foundation.tolerance import read
from perdure.domain.llm.usage import AttemptTotals, Usage

# The estimate of an attempt that was never sent; it also marks such a row (see `is_sent`).
# Compared as text with rows of earlier versions too: a field that `Usage` gains changes it.
_NOTHING = Usage().model_dump_json()
ClosedState = Literal["answered", "failed", "duplicate"]


@dataclass(frozen=True, slots=True)
class Booking:
    """What an attempt used; `confirmed` if the provider reported it."""

    usage: Usage
    cost_usd: Decimal | None
    seconds: float
    confirmed: bool = True


class StoredAttempt(AttemptRow):
    """One attempt as the table has it, with what only the journal itself looks at."""

    opening: int
    request_hash: str
    settled: bool

    @classmethod
    def of(cls, found: RowMapping) -> Self:
        return cls(
            key=found["key"],
            attempt=found["attempt"],
            opening=found["opening"],
            run=found["run"],
            root=found["root"],
            phase=found["phase"],
            role=found["role"],
            iteration=found["iteration"],
            model=found["model"],
            request_hash=found["request_hash"],
            state=found["state"],
            usage=read(Usage, found["usage"]),
            cost_usd=found["cost_usd"],
            at_estimate=found["at_estimate"],
            settled=found["settled"],
            started_at=found["started_at"],
            seconds=found["seconds"],
            sent=is_sent(found["state"], found["estimate"]),
        )

    @property
    def _was_lost(self) -> bool:
        """Whether its worker was taken for dead; failures and replies can be estimates too."""
        return self.at_estimate and (self.settled or self.state in {"lost", "duplicate"})

    @property
    def account(self) -> AttemptTotals:
        """This row's part of a sum; the usage of an open attempt is not known yet."""
        if self.at_estimate or self.state == "duplicate":
            return AttemptTotals(
                attempts=1,
                unconfirmed=self.usage,
                unconfirmed_cost_usd=self.cost_usd,
                lost_attempts=int(self._was_lost),
                seconds=self.seconds,
            )
        return AttemptTotals(
            attempts=int(self.sent), usage=self.usage, cost_usd=self.cost_usd, seconds=self.seconds
        )


# Statements of every turn are built once: building one costs more than executing it.
_ORDER = (attempts.c.started_at, attempts.c.key, attempts.c.attempt, attempts.c.opening)
_OF_KEY = select(attempts).where(attempts.c.key == bindparam("its_key")).order_by(*_ORDER)
_OPEN = insert(attempts)
# `its_…`, since SQLAlchemy keeps the names of columns for their new values.
_CLOSE = update(attempts).where(
    attempts.c.key == bindparam("its_key"),
    attempts.c.attempt == bindparam("its_attempt"),
    attempts.c.opening == bindparam("its_opening"),
)


def find(connection: Connection, condition: ColumnElement[bool]) -> list[StoredAttempt]:
    """All rows that meet the condition, oldest first."""
    found = connection.execute(select(attempts).where(condition).order_by(*_ORDER))
    return [StoredAttempt.of(row) for row in found.mappings()]


def numbered(key: str, attempt: int, opening: int) -> ColumnElement[bool]:
    """The one row of a key with this attempt and opening."""
    return and_(attempts.c.key == key, attempts.c.attempt == attempt, attempts.c.opening == opening)


def of_key(connection: Connection, key: str) -> list[StoredAttempt]:
    """All rows of a key, oldest first."""
    found = connection.execute(_OF_KEY, {"its_key": key})
    return [StoredAttempt.of(row) for row in found.mappings()]


def is_sent(state: str, estimate: str) -> bool:
    """Whether an attempt was ever sent, by two columns of its row."""
    return state != "failed" or estimate != _NOTHING


def was_sent() -> ColumnElement[bool]:
    """Whether an attempt was ever sent, and counts as a call in sums; `sent` of a row, in SQL."""
    return or_(attempts.c.state != "failed", attempts.c.estimate != _NOTHING)


def total(rows: Sequence[StoredAttempt]) -> AttemptTotals:
    account = AttemptTotals()
    for row in rows:
        account = account + row.account
    return account


def latest_opening(rows: Sequence[StoredAttempt], attempt: int) -> StoredAttempt | None:
    """The newest row of an attempt number."""
    own = [row for row in rows if row.attempt == attempt]
    return max(own, key=lambda row: row.opening, default=None)


def open_row(connection: Connection, attempt: Attempt, *, opening: int, now: datetime) -> None:
    row: dict[str, JsonValue | Decimal | datetime] = {
        "key": attempt.key,
        "attempt": attempt.attempt,
        "opening": opening,
        "execution": attempt.execution,
        "root": attempt.root,
        "run": attempt.run,
        "phase": attempt.phase,
        "role": attempt.role,
        "iteration": attempt.iteration,
        "model": attempt.model,
        "request_hash": attempt.request_hash,
        "state": "started",
        "usage": Usage().model_dump_json(),
        "cost_usd": Decimal(0),
        "estimate": (attempt.expected or attempt.estimate).model_dump_json(),
        # By `expected`, not by its cost, which is None for a model without a known price.
        "estimate_cost_usd": attempt.expected_cost_usd
        if attempt.expected
        else attempt.estimate_cost_usd,
        "at_estimate": False,
        "settled": False,
        "started_at": now,
        "seconds": 0.0,
        "counted": False,
    }
    connection.execute(_OPEN, row)


def close_row(
    connection: Connection, row: StoredAttempt, *, state: ClosedState, booking: Booking | None
) -> None:
    """Close an attempt; without a booking, its figures stay as they are."""
    numbered = {"its_key": row.key, "its_attempt": row.attempt, "its_opening": row.opening}
    booked: dict[str, JsonValue | Decimal] = {}
    if booking is not None:
        booked = {
            "usage": booking.usage.model_dump_json(),
            "cost_usd": booking.cost_usd,
            "at_estimate": not booking.confirmed,
            "seconds": booking.seconds,
        }
    connection.execute(_CLOSE, {**numbered, "state": state, **booked})


def expect(
    connection: Connection,
    condition: ColumnElement[bool],
    *,
    usage: Usage,
    cost_usd: Decimal | None,
) -> None:
    """Set the estimate at which the open rows among these are booked if they are lost."""
    connection.execute(
        update(attempts)
        .where(and_(condition, attempts.c.state == "started"))
        .values(estimate=usage.model_dump_json(), estimate_cost_usd=cost_usd)
    )


# A duration of 0 means that nobody reported the end of the attempt.
LEAST_S = 0.001


def lose(connection: Connection, condition: ColumnElement[bool], *, seconds: float = 0.0) -> None:
    """Book the open rows among these at their estimate."""
    connection.execute(
        update(attempts)
        .where(and_(condition, attempts.c.state == "started"))
        .values(
            state="lost",
            usage=attempts.c.estimate,
            cost_usd=attempts.c.estimate_cost_usd,
            at_estimate=True,
            seconds=seconds,
        )
    )


def tell_end(connection: Connection, condition: ColumnElement[bool], *, seconds: float) -> None:
    """Note the duration of lost attempts whose worker is alive after all and reported their end."""
    open_still = and_(attempts.c.state == "lost", attempts.c.settled.is_not(True))
    untold = and_(condition, open_still, attempts.c.seconds == 0)
    connection.execute(update(attempts).where(untold).values(seconds=max(seconds, LEAST_S)))


def mark_unsent(connection: Connection, condition: ColumnElement[bool]) -> None:
    """Mark failed attempts as never sent, so that no sum counts them as calls."""
    connection.execute(
        update(attempts)
        .where(and_(condition, attempts.c.state == "failed"))
        .values(estimate=_NOTHING, estimate_cost_usd=Decimal(0))
    )


def settle(connection: Connection, condition: ColumnElement[bool]) -> None:
    """Make the lost rows among these final: their estimate was reported and must not change."""
    connection.execute(
        update(attempts).where(and_(condition, attempts.c.state == "lost")).values(settled=True)
    )


async def progress_of(connection: AsyncConnection, runs: Collection[str]) -> list[CallProgress]:
    """The newest call of each execution of these runs."""
    newest = (
        select(
            attempts.c.run,
            attempts.c.execution,
            func.max(attempts.c.iteration).label("iteration"),
            func.max(attempts.c.started_at).label("started_at"),
        )
        .where(attempts.c.run.in_(runs))
        .group_by(attempts.c.run, attempts.c.execution)
        .subquery()
    )
    same = (newest.c[name] == attempts.c[name] for name in ("execution", "started_at"))
    query = select(
        newest.c.run, newest.c.execution, newest.c.iteration, attempts.c.phase
    ).join_from(newest, attempts, and_(*same))
    found = await connection.execute(query)
    return [CallProgress.model_validate(dict(row)) for row in found.mappings()]


async def spent_of(connection: AsyncConnection, roots: Collection[str]) -> dict[str, float | None]:
    """What the trees of these roots spent on calls that ended; None where a price is unknown."""
    # Kept as text, exactly; a list rounds it anyway.
    cost = cast(attempts.c.cost_usd, Double)
    # Counted apart, because a sum in SQL leaves out what is unknown.
    unpriced = func.sum(case((attempts.c.cost_usd.is_(None), 1), else_=0))
    query = (
        select(attempts.c.root, func.sum(cost), unpriced)
        .where(attempts.c.root.in_(roots), attempts.c.state != "started")
        .group_by(attempts.c.root)
    )
    found = await connection.execute(query)
    return {root: None if unknown else float(known) for root, known, unknown in found}
