"""The journal: every attempt of a model call, and the one reply that counts.

The figures of a row can change while its attempt is open. Those of a lost row can change until its
key is finished, since a worker that was taken for dead may still report. Once a sum was reported
(the key has a reply, or was refused, reconciled or sealed), a lost row keeps its estimate: the
journal must not contradict what the run was told.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from sqlalchemy import ColumnElement, Connection, and_, bindparam, exists, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.attempts import (
    LEAST_S,
    Booking,
    StoredAttempt,
    close_row,
    expect,
    find,
    latest_opening,
    lose,
    mark_unsent,
    numbered,
    of_key,
    open_row,
    progress_of,
    settle,
    spent_of,
    tell_end,
    total,
)
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.dialect import R, Work
from perdure.adapters.stores.replies import StoredReply, for_this, reply_of, take
from perdure.adapters.stores.tables import attempts, replies, seals, tombstones, tree_seals
from perdure.domain.budget.journal import (
    Attempt,
    AttemptRow,
    Begin,
    CallProgress,
    DoesNotFit,
    Proceed,
    Replayed,
    RunClosed,
    is_within_reservation,
)
from perdure.domain.llm.usage import AttemptTotals, Usage
from perdure.domain.run.child_runs import lineage

_SEALED = (
    select(seals.c.execution)
    .where(seals.c.execution == bindparam("its_execution"))
    .union_all(
        select(tree_seals.c.run).where(
            tree_seals.c.root == bindparam("its_root"),
            tree_seals.c.run.in_(bindparam("its_lineage", expanding=True)),
        )
    )
)


class SqlJournal:
    """`Journal` over the tables `attempts`, `replies` and `seals`."""

    def __init__(self, database: Database, *, now: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._now = now

    async def begin(self, attempt: Attempt) -> Begin:
        return await self._alone(attempt, partial(self._begun, attempt))

    def _begun(self, attempt: Attempt, connection: Connection) -> Begin:
        if _is_sealed(connection, attempt):
            return RunClosed(type="sealed")
        rows = of_key(connection, attempt.key)
        reply = for_this(connection, attempt, reply_of(connection, attempt.key))
        if rows:  # none at the first attempt of a call, as nearly all are
            older = and_(attempts.c.key == attempt.key, attempts.c.attempt < attempt.attempt)
            lose(connection, older)
        # Read again, since the lines above may have changed the rows.
        account = total(of_key(connection, attempt.key) if rows else ())
        # Before the limits: a reply that was paid for is used even if no further call fits.
        if reply is not None:
            return Replayed(type="replayed", reply=reply.text, account=account)
        if not is_within_reservation(attempt, account) or _tried_enough(attempt, rows):
            # The run is told this sum, so a worker that reports late must not change it.
            settle(connection, attempts.c.key == attempt.key)
            return DoesNotFit(type="does_not_fit", account=account)
        self._open(connection, attempt, latest_opening(rows, attempt.attempt))
        return Proceed(type="proceed")

    async def answered(self, key: str, request_hash: str) -> Replayed | None:
        def found(connection: Connection) -> Replayed | None:
            reply = reply_of(connection, key)
            if reply is None or reply.request_hash != request_hash:
                return None
            account = total(of_key(connection, key))
            return Replayed(type="replayed", reply=reply.text, account=account)

        return await self._database.read_whole(found)

    async def expect(self, attempt: Attempt, *, usage: Usage, cost_usd: Decimal | None) -> None:
        own = and_(attempts.c.key == attempt.key, attempts.c.attempt == attempt.attempt)
        # Without the locks of `_alone`: only an open row changes, and it does so every second.
        await self._database.write_whole(
            lambda connection: expect(connection, own, usage=usage, cost_usd=cost_usd)
        )

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
        booking = Booking(usage, cost_usd, seconds=seconds, confirmed=confirmed)
        return await self._alone(attempt, partial(self._answered, attempt, reply, booking))

    def _answered(
        self, attempt: Attempt, reply: str, booking: Booking, connection: Connection
    ) -> bool:
        rows = of_key(connection, attempt.key)
        row = self._own(connection, attempt, rows)
        first = for_this(connection, attempt, reply_of(connection, attempt.key))
        # A caller that did not learn of its commit repeats the answer, which is no duplicate.
        if first is not None and (first.attempt, first.opening) == (row.attempt, row.opening):
            return first.text == reply
        # Booked already. As a duplicate, a failure would count as unconfirmed.
        if first is not None and row.state in ("duplicate", "failed"):
            return False
        close_row(
            connection,
            row,
            state="answered" if first is None else "duplicate",
            booking=None if _is_fixed(row, first) else booking,
        )
        if first is None:
            take(connection, attempt, row, reply, rows)
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
        # Nothing was bought, whatever the price is: an unknown cost would hide all others.
        cost = cost_usd if sent else Decimal(0)
        booking = Booking(usage, cost, seconds=seconds, confirmed=confirmed)

        def failed(connection: Connection) -> None:
            row = self._own(connection, attempt, of_key(connection, attempt.key))
            first = reply_of(connection, attempt.key)
            # Also if the figures are fixed: the time shows that no worker died over this attempt.
            if lost:
                tell_end(connection, _same_attempt(row), seconds=seconds)
            if _is_fixed(row, first):
                return
            if lost:
                lose(connection, _same_attempt(row), seconds=max(seconds, LEAST_S))
                return
            close_row(connection, row, state="failed", booking=booking)
            if not sent:
                mark_unsent(connection, _same_attempt(row))

        await self._alone(attempt, failed)

    async def failures(self, key: str) -> int:
        failed = and_(attempts.c.key == key, attempts.c.state == "failed")
        return len(await self._rows(failed))

    async def traces(self, key: str) -> tuple[int, int]:
        rows = await self._rows(attempts.c.key == key)
        untold = [row for row in rows if row.state in ("started", "lost") and not row.seconds]
        return len(rows) - len(untold), len(untold)

    async def failing_for(self, key: str) -> float:
        failed = and_(attempts.c.key == key, attempts.c.state == "failed")
        rows = await self._rows(failed)
        ends = [row.started_at + timedelta(seconds=row.seconds) for row in rows]
        return max(0.0, (self._now() - min(ends)).total_seconds()) if ends else 0.0

    async def account(self, key: str) -> AttemptTotals:
        """The sum over all attempts of a key as they stand.

        If no reply will come any more, call `reconcile` instead, which makes the sum final.
        """
        rows = await self._database.read_whole(lambda connection: of_key(connection, key))
        return total(rows)

    async def reconcile(self, key: str) -> AttemptTotals:
        def reconciled(connection: Connection) -> AttemptTotals:
            self._database.hold(connection, f"key {key}")
            lose(connection, attempts.c.key == key)
            settle(connection, attempts.c.key == key)
            return total(of_key(connection, key))

        return await self._database.write_whole(reconciled)

    async def unended(self, *, before: datetime) -> list[AttemptRow]:
        begun = and_(attempts.c.state == "started", attempts.c.started_at < before)
        return [*await self._rows(begun)]

    async def seal_and_sum(self, execution: str) -> AttemptTotals:
        seal = self._database.insert(seals).values(execution=execution, sealed_at=self._now())
        its = attempts.c.execution == execution

        def sealed(connection: Connection) -> AttemptTotals:
            self._database.hold(connection, f"execution {execution}")
            connection.execute(seal.on_conflict_do_nothing())
            lose(connection, its)
            settle(connection, its)
            return total(find(connection, its))

        return await self._database.write_whole(sealed)

    async def seal_tree(self, *, root: str, run: str) -> list[AttemptRow]:
        seal = self._database.insert(tree_seals).values(root=root, run=run, sealed_at=self._now())
        its = _of_tree(root, run)

        def sealed(connection: Connection) -> list[AttemptRow]:
            self._database.hold(connection, f"tree {root}")
            connection.execute(seal.on_conflict_do_nothing())
            lose(connection, its)
            settle(connection, its)
            return [*find(connection, its)]

        return await self._database.write_whole(sealed)

    async def seal_lives(self, *, root: str, run: str, current: str, before: str) -> None:
        others = and_(
            attempts.c.root == root, attempts.c.run == run, attempts.c.execution != current
        )

        def sealed(connection: Connection) -> None:
            # Every attempt of the tree holds this lock shared, so none can begin meanwhile.
            self._database.hold(connection, f"tree {root}")
            found = connection.scalars(select(attempts.c.execution).where(others).distinct())
            # `before` too: an execution that has begun no call yet is in no row.
            for execution in sorted({*found, before} - {current, ""}):
                seal = self._database.insert(seals).values(
                    execution=execution, sealed_at=self._now()
                )
                connection.execute(seal.on_conflict_do_nothing())
            lose(connection, others)
            settle(connection, others)

        await self._database.write_whole(sealed)

    async def tree(self, *, root: str, run: str) -> list[AttemptRow]:
        return [*await self._rows(_of_tree(root, run))]

    async def rows(self, run: str) -> list[AttemptRow]:
        return [*await self._rows(attempts.c.run == run)]

    async def progress(self, runs: Collection[str]) -> list[CallProgress]:
        async with self._database.read() as connection:
            return await progress_of(connection, runs)

    async def spent(self, roots: Collection[str]) -> dict[str, float | None]:
        async with self._database.read() as connection:
            return await spent_of(connection, roots)

    async def has_spent(self, run: str) -> bool:
        any_of_it = select(attempts.c.key).where(attempts.c.run == run).limit(1)
        return await self._database.value(any_of_it) is not None

    async def is_used(self, run: str) -> bool:
        named = (attempts.c.run, attempts.c.root, tree_seals.c.root, tombstones.c.run)
        query = select(or_(*(exists().where(column == run) for column in named)))
        return bool(await self._database.value(query))

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

    async def _rows(self, condition: ColumnElement[bool]) -> list[StoredAttempt]:
        return await self._database.read_whole(lambda connection: find(connection, condition))

    async def _alone(self, attempt: Attempt, work: Work[R]) -> R:
        """Run a transaction alone with its key; no seal of the run or tree can overlap it."""

        def locked(connection: Connection) -> R:
            # Shared, so that calls of one run do not wait for each other; a seal takes its lock
            # exclusively. All attempts take the three in this order, which avoids deadlocks.
            self._database.hold(connection, f"tree {attempt.root}", shared=True)
            self._database.hold(connection, f"execution {attempt.execution}", shared=True)
            self._database.hold(connection, f"key {attempt.key}")
            return work(connection)

        return await self._database.write_whole(locked)

    def _open(self, connection: Connection, attempt: Attempt, own: StoredAttempt | None) -> None:
        # An open row with this number is the same attempt: its caller did not learn of the commit.
        # Only if that row was closed in between does the attempt get a row of its own.
        if own is not None and own.state == "started":
            return
        opening = 0 if own is None else own.opening + 1
        open_row(connection, attempt, opening=opening, now=self._now())

    def _own(
        self, connection: Connection, attempt: Attempt, rows: Sequence[StoredAttempt]
    ) -> StoredAttempt:
        # Spent money is booked even if nobody opened the attempt before.
        own = latest_opening(rows, attempt.attempt)
        if own is not None:
            return own
        open_row(connection, attempt, opening=0, now=self._now())
        return find(connection, numbered(attempt.key, attempt.attempt, 0))[0]


async def _last_state(connection: AsyncConnection, model: str, since: datetime) -> str | None:
    # One index lookup for each model, because the journal grows with every call.
    newest = (
        select(attempts.c.state)
        .where(attempts.c.model == model, attempts.c.started_at >= since)
        # By model too, though all rows have the same: so the order is that of the index.
        .order_by(attempts.c.model.desc(), attempts.c.started_at.desc())
        .limit(1)
    )
    return await connection.scalar(newest)


def _tried_enough(attempt: Attempt, rows: Sequence[StoredAttempt]) -> bool:
    """Whether the key has no attempt left; reopening an attempt does not count as a new one."""
    if attempt.reservation_attempts is None:
        return False
    own = (attempt.attempt, "started")
    made = sum(1 for row in rows if row.sent and (row.attempt, row.state) != own)
    return made >= attempt.reservation_attempts


def _is_fixed(row: StoredAttempt, first: StoredReply | None) -> bool:
    match row.state:
        case "started":
            return False
        case "lost":
            return row.settled or first is not None
        case "answered" | "failed" | "duplicate":
            return True


def _same_attempt(row: StoredAttempt) -> ColumnElement[bool]:
    return numbered(row.key, row.attempt, row.opening)


def _is_sealed(connection: Connection, attempt: Attempt) -> bool:
    # A seal of any run above counts, so that no child can begin behind it.
    above = lineage(attempt.run)
    its = {"its_execution": attempt.execution, "its_root": attempt.root, "its_lineage": above}
    return connection.scalar(_SEALED, its) is not None


def _of_tree(root: str, run: str) -> ColumnElement[bool]:
    """Attempts of a run and of all runs below it.

    The root is compared too, since ids below another root may have the same beginning.
    """
    # Not LIKE: SQLite's ignores case, and ids may hold its wildcards.
    below = f"{run}."
    named = or_(attempts.c.run == run, func.substr(attempts.c.run, 1, len(below)) == below)
    return and_(attempts.c.root == root, named)
