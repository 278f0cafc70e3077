"""The journal: every attempt of a model call, and the one reply that counts.

A row's figures can still change while the attempt is open, and a lost row's while its key is
unfinished (a worker that was taken for dead may yet report). Once a sum was reported (the key has a
reply, or was refused, reconciled or sealed) a lost row keeps its estimate, so that what a run was
told and what the journal says never differ.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from sqlalchemy import ColumnElement, and_, delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.attempts import (
    LEAST_S,
    Booking,
    Row,
    close_row,
    expect,
    find,
    latest_opening,
    lose,
    mark_unsent,
    open_row,
    settle,
    tell_end,
    total,
)
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import attempts, replies, seals, tree_seals
from perdure.domain.budget.journal import (
    Attempt,
    AttemptRow,
    Begin,
    DoesNotFit,
    Proceed,
    Replayed,
    RunClosed,
    fits,
)
from perdure.domain.llm.usage import AttemptTotals, Usage
from perdure.domain.run.child_runs import lineage


@dataclass(frozen=True, slots=True)
class _Reply:
    attempt: int
    opening: int
    request_hash: str
    text: str


class SqlJournal:
    """`Journal` over the tables `attempts`, `replies` and `seals`."""

    def __init__(self, database: Database, *, now: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._now = now

    async def begin(self, attempt: Attempt) -> Begin:
        this_key = attempts.c.key == attempt.key
        async with self._writing(attempt) as connection:
            if await _is_sealed(connection, attempt):
                return RunClosed(type="sealed")
            reply = await _reply(connection, attempt.key)
            rows = await find(connection, this_key)
            reply = await _for_this(connection, attempt, reply)
            await lose(connection, and_(this_key, attempts.c.attempt < attempt.attempt))
            account = total(await find(connection, this_key))
            if reply is not None:
                return Replayed(type="replayed", reply=reply.text, account=account)
            if not fits(attempt, account) or _tried_enough(attempt, rows):
                await settle(connection, this_key)
                return DoesNotFit(type="does_not_fit", account=account)
            await self._open(connection, attempt, latest_opening(rows, attempt.attempt))
            return Proceed(type="proceed")

    async def answered(self, key: str, request_hash: str) -> Replayed | None:
        async with self._database.read() as connection:
            reply = await _reply(connection, key)
            if reply is None or reply.request_hash != request_hash:
                return None
            account = total(await find(connection, attempts.c.key == key))
            return Replayed(type="replayed", reply=reply.text, account=account)

    async def expect(self, attempt: Attempt, *, usage: Usage, cost_usd: Decimal | None) -> None:
        own = and_(attempts.c.key == attempt.key, attempts.c.attempt == attempt.attempt)
        async with self._database.write() as connection:
            await expect(connection, own, usage=usage, cost_usd=cost_usd)

    async def answer(
        self,
        attempt: Attempt,
        *,
        usage: Usage,
        cost_usd: Decimal | None,
        reply: str,
        seconds: float,
        confirmed: bool = True,
    ) -> bool:
        async with self._writing(attempt) as connection:
            row = await self._find_or_open(connection, attempt)
            first = await _for_this(connection, attempt, await _reply(connection, attempt.key))
            if first is not None and (first.attempt, first.opening) == (row.attempt, row.opening):
                return first.text == reply
            if first is not None and row.state in ("duplicate", "failed"):
                return False
            booking = Booking(usage, cost_usd, seconds=seconds, confirmed=confirmed)
            await close_row(
                connection,
                row,
                state="answered" if first is None else "duplicate",
                booking=None if _is_fixed(row, first) else booking,
            )
            if first is None:
                await _take(connection, attempt, row, reply)
            return first is None

    async def fail(
        self,
        attempt: Attempt,
        *,
        usage: Usage,
        cost_usd: Decimal | None,
        seconds: float,
        lost: bool = False,
        sent: bool = True,
        confirmed: bool = True,
    ) -> None:
        async with self._writing(attempt) as connection:
            row = await self._find_or_open(connection, attempt)
            first = await _reply(connection, attempt.key)
            if lost:
                await tell_end(connection, _same_attempt(row), seconds=seconds)
            if _is_fixed(row, first):
                return
            if lost:
                await lose(connection, _same_attempt(row), seconds=max(seconds, LEAST_S))
                return
            booking = Booking(usage, cost_usd, seconds=seconds, confirmed=confirmed)
            await close_row(connection, row, state="failed", booking=booking)
            if not sent:
                await mark_unsent(connection, _same_attempt(row))

    async def failures(self, key: str) -> int:
        failed = and_(attempts.c.key == key, attempts.c.state == "failed")
        async with self._database.read() as connection:
            return len(await find(connection, failed))

    async def traces(self, key: str) -> tuple[int, int]:
        async with self._database.read() as connection:
            rows = await find(connection, attempts.c.key == key)
        untold = [row for row in rows if row.state in ("started", "lost") and not row.seconds]
        return len(rows) - len(untold), len(untold)

    async def failing_for(self, key: str) -> float:
        failed = and_(attempts.c.key == key, attempts.c.state == "failed")
        async with self._database.read() as connection:
            rows = await find(connection, failed)
        ends = [row.started_at + timedelta(seconds=row.seconds) for row in rows]
        return max(0.0, (self._now() - min(ends)).total_seconds()) if ends else 0.0

    async def account(self, key: str) -> AttemptTotals:
        """The sum over all attempts of a key as they stand.

        A sum that ends a key for good without a reply is asked of `reconcile`, which fixes it.
        """
        async with self._database.read() as connection:
            return total(await find(connection, attempts.c.key == key))

    async def reconcile(self, key: str) -> AttemptTotals:
        async with self._database.write() as connection:
            await self._database.lock(connection, f"key {key}")
            await lose(connection, attempts.c.key == key)
            await settle(connection, attempts.c.key == key)
            return total(await find(connection, attempts.c.key == key))

    async def unended(self, *, before: datetime) -> list[AttemptRow]:
        begun = and_(attempts.c.state == "started", attempts.c.started_at < before)
        async with self._database.read() as connection:
            return [row.shown for row in await find(connection, begun)]

    async def seal_and_sum(self, execution: str) -> AttemptTotals:
        seal = self._database.insert(seals).values(execution=execution, sealed_at=self._now())
        async with self._database.write() as connection:
            await self._database.lock(connection, f"execution {execution}")
            await connection.execute(seal.on_conflict_do_nothing())
            await lose(connection, attempts.c.execution == execution)
            await settle(connection, attempts.c.execution == execution)
            return total(await find(connection, attempts.c.execution == execution))

    async def seal_tree(self, *, root: str, run: str) -> list[AttemptRow]:
        seal = self._database.insert(tree_seals).values(root=root, run=run, sealed_at=self._now())
        async with self._database.write() as connection:
            await self._database.lock(connection, f"tree {root}")
            await connection.execute(seal.on_conflict_do_nothing())
            await lose(connection, _of_tree(root, run))
            await settle(connection, _of_tree(root, run))
            return [row.shown for row in await find(connection, _of_tree(root, run))]

    async def seal_lives(self, *, root: str, run: str, current: str, before: str) -> None:
        others = and_(
            attempts.c.root == root, attempts.c.run == run, attempts.c.execution != current
        )
        async with self._database.write() as connection:
            # Every attempt of the tree holds this lock shared, so that none begins meanwhile.
            await self._database.lock(connection, f"tree {root}")
            found = await connection.scalars(select(attempts.c.execution).where(others).distinct())
            for execution in sorted({*found, before} - {current, ""}):
                seal = self._database.insert(seals).values(
                    execution=execution, sealed_at=self._now()
                )
                await connection.execute(seal.on_conflict_do_nothing())
            await lose(connection, others)
            await settle(connection, others)

    async def tree(self, *, root: str, run: str) -> list[AttemptRow]:
        async with self._database.read() as connection:
            return [row.shown for row in await find(connection, _of_tree(root, run))]

    async def rows(self, run: str) -> list[AttemptRow]:
        async with self._database.read() as connection:
            return [row.shown for row in await find(connection, attempts.c.run == run)]

    async def has_spent(self, run: str) -> bool:
        any_of_it = select(attempts.c.key).where(attempts.c.run == run).limit(1)
        async with self._database.read() as connection:
            return await connection.scalar(any_of_it) is not None

    async def failing_models(self, models: Collection[str], *, since: datetime) -> set[str]:
        async with self._database.read() as connection:
            states = {model: await _last_state(connection, model, since) for model in set(models)}
        return {model for model, state in states.items() if state == "failed"}

    async def replies(self, run: str) -> dict[str, str]:
        keys = select(attempts.c.key).where(attempts.c.run == run)
        async with self._database.read() as connection:
            found = await connection.execute(
                select(replies.c.key, replies.c.reply).where(replies.c.key.in_(keys))
            )
            return {row.key: row.reply for row in found}

    @asynccontextmanager
    async def _writing(self, attempt: Attempt) -> AsyncGenerator[AsyncConnection]:
        """A transaction that is alone with its key and cannot overlap a seal of run or tree."""
        async with self._database.write() as connection:
            await self._database.lock(connection, f"tree {attempt.root}", shared=True)
            await self._database.lock(connection, f"execution {attempt.execution}", shared=True)
            await self._database.lock(connection, f"key {attempt.key}")
            yield connection

    async def _open(self, connection: AsyncConnection, attempt: Attempt, own: Row | None) -> None:
        # The same number twice is the same attempt, whose caller did not hear of the commit; only
        # one that was closed in between gets a row of its own.
        if own is not None and own.state == "started":
            return
        opening = 0 if own is None else own.opening + 1
        await open_row(connection, attempt, opening=opening, now=self._now())

    async def _find_or_open(self, connection: AsyncConnection, attempt: Attempt) -> Row:
        # Money that was spent is booked even when nobody announced it.
        rows = await find(connection, attempts.c.key == attempt.key)
        own = latest_opening(rows, attempt.attempt)
        if own is not None:
            return own
        await open_row(connection, attempt, opening=0, now=self._now())
        return (await find(connection, _numbered(attempt.key, attempt.attempt, 0)))[0]


async def _last_state(connection: AsyncConnection, model: str, since: datetime) -> str | None:
    # One step into an index for each model: the journal grows with every call that is ever made.
    newest = (
        select(attempts.c.state)
        .where(attempts.c.model == model, attempts.c.started_at >= since)
        .order_by(attempts.c.model.desc(), attempts.c.started_at.desc())
        .limit(1)
    )
    return await connection.scalar(newest)


def _tried_enough(attempt: Attempt, rows: Sequence[Row]) -> bool:
    """Whether the attempts of the key are used up; the one that is opened again is no new one."""
    if attempt.reservation_attempts is None:
        return False
    own = (attempt.attempt, "started")
    made = sum(1 for row in rows if row.sent and (row.attempt, row.state) != own)
    return made >= attempt.reservation_attempts


def _is_fixed(row: Row, first: _Reply | None) -> bool:
    match row.state:
        case "started":
            return False
        case "lost":
            return row.settled or first is not None
        case "answered" | "failed" | "duplicate":
            return True


def _same_attempt(row: Row) -> ColumnElement[bool]:
    return _numbered(row.key, row.attempt, row.opening)


def _numbered(key: str, attempt: int, opening: int) -> ColumnElement[bool]:
    return and_(attempts.c.key == key, attempts.c.attempt == attempt, attempts.c.opening == opening)


async def _take(connection: AsyncConnection, attempt: Attempt, row: Row, reply: str) -> None:
    """Make this reply the one of its key, and book older attempts that are still open."""
    await connection.execute(
        insert(replies).values(
            key=row.key,
            attempt=row.attempt,
            opening=row.opening,
            request_hash=attempt.request_hash,
            reply=reply,
        )
    )
    older = and_(attempts.c.key == row.key, attempts.c.attempt < row.attempt)
    await lose(connection, older)


async def _is_sealed(connection: AsyncConnection, attempt: Attempt) -> bool:
    found = select(seals.c.execution).where(seals.c.execution == attempt.execution)
    if await connection.scalar(found) is not None:
        return True
    above = select(tree_seals.c.run).where(
        tree_seals.c.root == attempt.root, tree_seals.c.run.in_(lineage(attempt.run))
    )
    return await connection.scalar(above) is not None


def _of_tree(root: str, run: str) -> ColumnElement[bool]:
    """Attempts of a run, and of those below it; another root may have ids that begin the same."""
    below = f"{run}."
    named = or_(attempts.c.run == run, func.substr(attempts.c.run, 1, len(below)) == below)
    return and_(attempts.c.root == root, named)


async def _reply(connection: AsyncConnection, key: str) -> _Reply | None:
    found = (await connection.execute(select(replies).where(replies.c.key == key))).mappings()
    row = found.first()
    if row is None:
        return None
    return _Reply(
        attempt=row["attempt"],
        opening=row["opening"],
        request_hash=row["request_hash"],
        text=row["reply"],
    )


async def _for_this(
    connection: AsyncConnection, attempt: Attempt, reply: _Reply | None
) -> _Reply | None:
    """The reply of a key, unless an earlier attempt got it for another request.

    That one is kept as a duplicate, and the key is asked anew: the question is put together by the
    code of a worker, and another version may put it otherwise.
    """
    if reply is None or reply.request_hash == attempt.request_hash:
        return reply
    if reply.attempt >= attempt.attempt:
        return reply
    await connection.execute(delete(replies).where(replies.c.key == attempt.key))
    await connection.execute(
        update(attempts)
        .where(_numbered(attempt.key, reply.attempt, reply.opening))
        .values(state="duplicate")
    )
    return None
