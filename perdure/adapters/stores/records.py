"""Run rows, iteration records and small registries; every write may be repeated."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict, ValidationError
from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Table,
    and_,
    delete,
    exists,
    func,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.dialect import Upsert
from perdure.adapters.stores.tables import (
    api_starts,
    artifacts,
    installation,
    iterations,
    live_texts,
    run_savings,
    runs,
    script_entries,
    sprints,
    todos,
    tombstones,
    verdicts,
    workspaces,
)
from perdure.domain.evaluation.judge_cache import kept
from perdure.domain.foundation.tolerance import read
from perdure.domain.installation.workspace_use import WorkspaceUse
from perdure.domain.retention.erasure import Tombstone
from perdure.domain.run.result import Savings
from perdure.domain.run.status import RunWords, StoredRun
from perdure.domain.turns.records import IterationRecord

_Value = str | int | datetime | None
INSTALLATION_BYTES = 4
WORKSPACE_BYTES = 4
# Iterations count from 1. In front of them stand the tool calls of all that were dropped.
DROPPED = 0
# A use is noted once a minute at most, so that many starts in one folder do not all write it.
USE_NOTED_AFTER = timedelta(minutes=1)


_OPEN_RUNS = select(runs.c.id).where(runs.c.ended_at.is_(None))
# Built once: every worker runs this query each second.
_WORKSPACE_USES = select(
    workspaces,
    or_(
        # A run of an earlier version names no folder, so it may need any of them.
        exists(_OPEN_RUNS.where(runs.c.workspace.is_(None))),
        exists(_OPEN_RUNS.where(runs.c.workspace == workspaces.c.id)),
    ).label("busy"),
).order_by(workspaces.c.path)


class _Saved(BaseModel):
    """The fields of a result that a row of savings needs; any version may have written it."""

    model_config = ConfigDict(extra="ignore")

    savings: Savings = Savings()


class SqlRecords:
    """`RecordStore` over one table per kind of row."""

    def __init__(self, database: Database, *, now: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._now = now
        # Built once: every turn writes a record.
        self._record = self._upsert(iterations, ("run", "position", "record"))

    async def installation(self) -> str:
        found = select(installation.c.id)
        known = await self._database.value(found)
        if known is not None:
            return known
        new = secrets.token_hex(INSTALLATION_BYTES)
        await self._add(installation, slot=1, id=new)
        # Read it back: another process may have been first, and then its id counts.
        async with self._database.read() as connection:
            return (await connection.execute(found)).scalar_one()

    async def workspace(self, path: str) -> str:
        found = select(workspaces).where(workspaces.c.path == path)
        now = self._now()
        async with self._database.read() as connection:
            known = (await connection.execute(found)).first()
        if known is not None:
            if known.used_at is None or now - known.used_at > USE_NOTED_AFTER:
                noted = update(workspaces).where(workspaces.c.path == path).values(used_at=now)
                await self._database.change(noted)
            return known.id
        new = secrets.token_hex(WORKSPACE_BYTES)
        await self._add(workspaces, id=new, path=path, used_at=now)
        async with self._database.read() as connection:
            return (await connection.execute(found)).one().id

    async def workspaces(self) -> dict[str, str]:
        async with self._database.read() as connection:
            found = await connection.execute(select(workspaces).order_by(workspaces.c.path))
            return {row.id: row.path for row in found}

    async def workspace_uses(self) -> list[WorkspaceUse]:
        def found(connection: Connection) -> list[WorkspaceUse]:
            rows = connection.execute(_WORKSPACE_USES).mappings()
            return [WorkspaceUse.model_validate(dict(row)) for row in rows]

        return await self._database.read_whole(found)

    async def put_run(self, run: StoredRun) -> None:
        saved = _savings(run)
        async with self._database.write() as connection:
            await connection.execute(self._replacing(runs, **run.model_dump()))
            if saved is not None:
                await connection.execute(self._replacing(run_savings, **saved))

    async def claim_run(self, run: StoredRun, *, seen: StoredRun | None) -> bool:
        if seen is None:
            # Without a target: a row of this id and a row with this key both refuse the claim.
            new = self._database.insert(runs).values(run.model_dump()).on_conflict_do_nothing()
            change = new.returning(runs.c.id)
        else:
            same = and_(
                runs.c.id == run.id,
                # Only starts and ends change these two; the run writes others meanwhile.
                runs.c.started_at == seen.started_at,
                runs.c.ended_at.is_not_distinct_from(seen.ended_at),
            )
            changed = update(runs).where(same).values(run.model_dump(exclude={"id"}))
            change = changed.returning(runs.c.id)
        async with self._database.write() as connection:
            return await connection.scalar(change) is not None

    async def run_of_key(self, start_key: str) -> StoredRun | None:
        return await self._run(runs.c.start_key == start_key)

    async def reopen_run(self, run: StoredRun, *, ended_at: datetime) -> bool:
        ended = and_(runs.c.id == run.id, runs.c.ended_at == ended_at)
        changed = update(runs).where(ended).values(run.model_dump(exclude={"id"}))
        return await self._database.change(changed) == 1

    async def run(self, run: str) -> StoredRun | None:
        return await self._run(runs.c.id == run)

    async def _run(self, wanted: ColumnElement[bool]) -> StoredRun | None:
        row = await self._database.row(select(runs).where(wanted))
        return None if row is None else StoredRun.model_validate(dict(row))

    async def find_runs(
        self,
        *,
        prefix: str = "",
        limit: int = 100,
        offset: int = 0,
        roots: bool = False,
        until: datetime | None = None,
    ) -> list[StoredRun]:
        query = (
            select(runs)
            .where(
                self._database.begins(runs.c.id, prefix) if prefix else true(),
                runs.c.parent.is_(None) if roots else true(),
                true() if until is None else runs.c.started_at <= until,
            )
            .order_by(runs.c.started_at.desc(), runs.c.id)
            .limit(limit)
            .offset(offset)
        )
        return [StoredRun.model_validate(dict(row)) for row in await self._database.rows(query)]

    async def words(self, ids: Sequence[str]) -> dict[str, RunWords]:
        query = select(runs.c.id, runs.c.goal, runs.c.label).where(runs.c.id.in_(ids))
        async with self._database.read() as connection:
            found = await connection.execute(query)
            return {row.id: RunWords(goal=row.goal, label=row.label) for row in found}

    async def start_times(self, ids: Sequence[str]) -> dict[str, datetime]:
        query = select(runs.c.id, runs.c.started_at).where(runs.c.id.in_(ids))
        return {row["id"]: row["started_at"] for row in await self._database.rows(query)}

    async def runs(self, ids: Sequence[str]) -> list[StoredRun]:
        query = select(runs).where(runs.c.id.in_(ids))
        return [StoredRun.model_validate(dict(row)) for row in await self._database.rows(query)]

    async def open_runs(self) -> list[str]:
        query = select(runs.c.id).where(runs.c.ended_at.is_(None))
        return await self._database.values(query)

    async def edit_run(self, run: str, *, goal: str, label: str | None, spec: str) -> None:
        change = update(runs).where(runs.c.id == run).values(goal=goal, label=label, spec=spec)
        await self._database.change(change)

    async def edit_status(self, run: str, status: str) -> None:
        # The caller has read the row before: a run that ended since keeps its final status.
        unended = and_(runs.c.id == run, runs.c.ended_at.is_(None))
        await self._database.change(update(runs).where(unended).values(status=status))

    async def delete_run(self, run: str, *, stone: Tombstone | None = None) -> None:
        async with self._database.write() as connection:
            if stone is not None:
                # In one transaction: with both tombstone and row, or neither, sums would be wrong.
                await put_stone(self._database, connection, stone)
            await connection.execute(delete(iterations).where(iterations.c.run == run))
            await connection.execute(delete(live_texts).where(live_texts.c.run == run))
            await connection.execute(delete(script_entries).where(script_entries.c.run == run))
            # With its idempotency key: a key without a run would answer for nothing.
            await connection.execute(delete(api_starts).where(api_starts.c.run == run))
            await connection.execute(delete(sprints).where(sprints.c.run == run))
            # Artifacts go with their run; todos that belong to a project stay.
            await connection.execute(delete(artifacts).where(artifacts.c.run == run))
            own = (todos.c.scope == "run") & (todos.c.owner == run)
            await connection.execute(delete(todos).where(own))
            await connection.execute(delete(runs).where(runs.c.id == run))

    async def put_record(self, run: str, index: int, record: str) -> None:
        row = {"run": run, "position": index, "record": record}
        await self._database.write_whole(lambda connection: _done(connection, self._record, row))

    async def drop_records(self, run: str, *, after: int) -> int:
        own, place = iterations.c.run == run, iterations.c.position
        later = and_(own, place > after)

        def dropped(connection: Connection) -> int:
            # One after the other: two at a time would each count the same records.
            self._database.hold(connection, f"records {run}")
            calls = _tool_calls(connection, and_(own, or_(place > after, place == DROPPED)))
            connection.execute(delete(iterations).where(later))
            if calls:
                # A whole record, since earlier versions read this row as one.
                record = IterationRecord(index=DROPPED, tool_calls=calls)
                row = {"run": run, "position": DROPPED, "record": record.model_dump_json()}
                connection.execute(self._record, row)
            return calls

        return await self._database.write_whole(dropped)

    async def records(self, run: str) -> list[str]:
        own = and_(iterations.c.run == run, iterations.c.position > DROPPED)
        query = select(iterations.c.record).where(own)
        return await self._database.values(query.order_by(iterations.c.position))

    async def verdict(self, key: str) -> str | None:
        query = select(verdicts.c.reply).where(verdicts.c.key == key)
        return await self._database.value(query)

    async def put_verdict(self, key: str, reply: str) -> None:
        verdict = kept(reply)
        paid = "" if verdict is None else verdict.run
        await self._add(verdicts, key=key, reply=reply, written_at=self._now(), run=paid)

    async def script_uses(self, run: str, prefix: str) -> dict[int, int]:
        taken = script_entries.c
        query = (
            select(taken.entry, func.count())
            .where(taken.run == run, func.substr(taken.key, 1, len(prefix)) == prefix)
            .group_by(taken.entry)
        )
        async with self._database.read() as connection:
            return dict((await connection.execute(query)).all())

    async def script_held(self, run: str, keys: Sequence[str]) -> dict[str, int]:
        taken = script_entries.c
        query = (
            select(taken.key, func.min(taken.entry))
            .where(taken.run == run, taken.key.in_(keys))
            .group_by(taken.key)
        )
        async with self._database.read() as connection:
            return dict((await connection.execute(query)).all())

    async def take_script_entry(self, run: str, key: str, entry: int) -> None:
        await self._add(script_entries, run=run, key=key, entry=entry, taken_at=self._now())

    async def _add(self, table: Table, **values: str | int | datetime) -> None:
        insert = self._database.insert(table).values(values).on_conflict_do_nothing()
        await self._database.write_whole(lambda connection: _done(connection, insert))

    def _replacing(self, table: Table, **values: _Value) -> Upsert:
        return self._upsert(table, tuple(values)).values(values)

    def _upsert(self, table: Table, names: Sequence[str]) -> Upsert:
        keys = [column.name for column in table.primary_key]
        new = self._database.insert(table)
        changed = {name: new.excluded[name] for name in names if name not in keys}
        return new.on_conflict_do_update(index_elements=keys, set_=changed)


def _done(
    connection: Connection, statement: Executable, row: Mapping[str, _Value] | None = None
) -> None:
    connection.execute(statement, row)


def _tool_calls(connection: Connection, wanted: ColumnElement[bool]) -> int:
    texts = connection.scalars(select(iterations.c.record).where(wanted))
    return sum(read(IterationRecord, text).tool_calls for text in texts)


def _savings(run: StoredRun) -> dict[str, _Value] | None:
    """The input that a run saved, according to its result; None if the result does not say.

    This is kept in columns because results may be encrypted, and then no query can read them.
    """
    if run.result is None or run.ended_at is None:
        return None
    try:
        saved = _Saved.model_validate_json(run.result).savings
    except ValidationError:  # the end of a run must be stored even if its figures are odd
        return None
    if not saved.naive_input_tokens:
        return None
    return {
        "run": run.id,
        "ended_at": run.ended_at,
        "input_tokens": saved.input_tokens,
        "naive_input_tokens": saved.naive_input_tokens,
    }


async def put_stone(database: Database, connection: AsyncConnection, stone: Tombstone) -> None:
    """Write a tombstone; never overwrite that of an erasure, which must not get a label again."""
    row = stone.model_dump()
    new = database.insert(tombstones).values(row)
    changed = new.on_conflict_do_update(
        index_elements=[tombstones.c.run],
        set_={name: new.excluded[name] for name in row if name != "run"},
        where=tombstones.c.why == "expired",
    )
    await connection.execute(changed)
