"""Erases runs from the tables: writes tombstones first, then deletes rows and memory entries."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import (
    Executable,
    Text,
    and_,
    delete,
    exists,
    func,
    literal,
    select,
    tuple_,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.columns import UtcTime
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.encryption import Content
from perdure.adapters.stores.memory import (
    CHANGEABLE,
    LOCK,
    entries_from,
    note_origins,
    readable,
    row_of,
    unnoted,
)
from perdure.adapters.stores.records import put_stone
from perdure.adapters.stores.tables import (
    api_starts,
    artifacts,
    attempts,
    erased_blobs,
    erasures,
    iterations,
    live_texts,
    live_watches,
    made_tool_makers,
    made_tools,
    memory,
    memory_origins,
    memory_uses,
    metadata,
    notices,
    replies,
    schedule_bookings,
    schedule_starts,
    script_entries,
    sprints,
    todos,
    tombstones,
    tree_seals,
    verdicts,
)
from perdure.adapters.stores.tables import runs as run_rows
from perdure.domain.evaluation.judge_cache import kept
from perdure.domain.foundation.refs import addresses_in
from perdure.domain.memory.entries import MemoryEntry, Skill
from perdure.domain.retention.erasure import (
    ForgottenEntries,
    Pending,
    RootRun,
    Tombstone,
    of_tree,
)
from perdure.domain.run.status import StoredRun

PAGE = 400
COUNTED = {
    "learning": "learnings", "episode": "episodes", "skill": "skills", "pattern": "patterns",
    "event": "events",
}  # fmt: skip
# Tables with rows of one run. The journal and the savings are kept: they hold figures only.
OF_A_RUN = (
    iterations, live_texts, live_watches, script_entries, sprints, artifacts, todos, notices,
    api_starts,
)  # fmt: skip


# Tables whose rows hold only ids and figures.
FIGURES = (attempts, tombstones, tree_seals, schedule_bookings, schedule_starts, memory_origins)
ROOTS = 500
_ROOT = (run_rows.c.id, run_rows.c.label, run_rows.c.outcome, run_rows.c.ended_at)


class SqlErasure:
    """The port `ErasureStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ended(
        self, *, by: datetime, after: RootRun | None = None, limit: int = ROOTS
    ) -> Sequence[RootRun]:
        columns = run_rows.c
        query = select(*_ROOT).where(columns.parent.is_(None), columns.ended_at <= by)
        if after is not None:
            last = tuple_(literal(after.ended_at, UtcTime), literal(after.id, Text))
            query = query.where(tuple_(columns.ended_at, columns.id) > last)
        return await self._roots(query.order_by(columns.ended_at, columns.id).limit(limit))

    async def roots(self, *, after: str = "", limit: int = ROOTS) -> Sequence[RootRun]:
        columns = run_rows.c
        query = select(*_ROOT).where(columns.parent.is_(None), columns.id > after)
        return await self._roots(query.order_by(columns.id).limit(limit))

    async def _roots(self, query: Executable) -> list[RootRun]:
        return [RootRun.model_validate(dict(row)) for row in await self._database.rows(query)]

    async def adopt(self) -> None:
        above = run_rows.alias("above")
        left = and_(
            run_rows.c.parent.is_not(None),
            run_rows.c.ended_at.is_not(None),
            ~exists().where(above.c.id == run_rows.c.parent),
        )
        await self._database.change(update(run_rows).where(left).values(parent=None))

    async def tree(self, root: str) -> Sequence[StoredRun]:
        named = select(run_rows).where(run_rows.c.id == root)
        # Separate queries, since each has an index of its own. Look for ids, not for `parent`: an
        # interrupted expiry may have deleted a run in between.
        below = select(run_rows).where(self._database.is_below(run_rows.c.id, root))
        found: list[StoredRun] = []
        async with self._database.read() as connection:
            for query in (named, below):
                rows = (await connection.execute(query)).mappings()
                found += [StoredRun.model_validate(dict(row)) for row in rows]
        return sorted(of_tree(root, found), key=lambda run: run.id)

    async def tombstones(self, root: str) -> Sequence[Tombstone]:
        query = select(tombstones).where(tombstones.c.root == root).order_by(tombstones.c.run)
        return [Tombstone.model_validate(dict(row)) for row in await self._database.rows(query)]

    async def addresses_of(self, runs: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for text in await self.texts(runs):
            # A text may hold half a character, which has no bytes; no address does.
            found |= addresses_in(text.encode(errors="replace"))
        return found

    async def texts(self, runs: Sequence[str]) -> Sequence[str]:
        found: list[str] = []
        async with self._database.read() as connection:
            for table in metadata.sorted_tables:
                owner = table.c.get("id" if table.name == "runs" else "run")
                texts = [
                    column for column in table.columns if isinstance(column.type, Text | Content)
                ]
                if owner is None or not texts or table in FIGURES:
                    continue
                rows = await connection.execute(select(*texts).where(owner.in_(runs)))
                found += [value for row in rows for value in row if value is not None]
            keys = select(attempts.c.key).where(attempts.c.run.in_(runs))
            kept_replies = select(replies.c.reply).where(replies.c.key.in_(keys))
            found += [text for text in await connection.scalars(kept_replies) if text]
        return found

    async def ask(self, roots: Sequence[str], *, at: datetime) -> None:
        async with self._database.write() as connection:
            for start in range(0, len(roots), PAGE):
                rows = [{"root": root, "at": at} for root in roots[start : start + PAGE]]
                new = self._database.insert(erasures).values(rows)
                await connection.execute(new.on_conflict_do_nothing())

    async def pending(self) -> Pending:
        async with self._database.read() as connection:
            roots = await connection.execute(select(erasures).order_by(erasures.c.at))
            found = [(row.root, row.at) for row in roots]
            query = select(func.count(), func.min(erased_blobs.c.at)).select_from(erased_blobs)
            blobs, since = (await connection.execute(query)).one()
        return Pending(
            roots=tuple(root for root, _ in found),
            since=found[0][1] if found else None,
            blobs=blobs,
            blobs_since=since,
        )

    async def close_erasure(self, root: str) -> None:
        await self._database.change(delete(erasures).where(erasures.c.root == root))

    async def mark(
        self, stones: Sequence[Tombstone], addresses: Sequence[str], *, root: str, at: datetime
    ) -> None:
        async with self._database.write() as connection:
            for stone in stones:
                await put_stone(self._database, connection, stone)
            for start in range(0, len(addresses), PAGE):
                rows = [
                    {"address": address, "root": root, "at": at}
                    for address in addresses[start : start + PAGE]
                ]
                new = self._database.insert(erased_blobs).values(rows)
                await connection.execute(new.on_conflict_do_nothing())

    async def marked_addresses(self, root: str = "") -> set[str]:
        query = select(erased_blobs.c.address)
        if root:
            query = query.where(erased_blobs.c.root == root)
        return set(await self._database.values(query))

    async def unmark(self, addresses: Sequence[str]) -> None:
        for start in range(0, len(addresses), PAGE):
            gone = erased_blobs.c.address.in_(addresses[start : start + PAGE])
            await self._database.change(delete(erased_blobs).where(gone))

    async def drop(self, runs: Sequence[str]) -> ForgottenEntries:
        names = list(runs)
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            forgotten = await self._forget(connection, names, write=True)
            await self._drop_verdicts(connection, names)
            keys = select(attempts.c.key).where(attempts.c.run.in_(names))
            await connection.execute(delete(replies).where(replies.c.key.in_(keys)))
            # This includes todos of a project, which `delete_run` keeps: the run wrote their text.
            for table in OF_A_RUN:
                await connection.execute(delete(table).where(table.c.run.in_(names)))
            await connection.execute(delete(memory_uses).where(memory_uses.c.run.in_(names)))
            await connection.execute(delete(run_rows).where(run_rows.c.id.in_(names)))
        return forgotten

    async def would_forget(self, runs: Sequence[str]) -> ForgottenEntries:
        async with self._database.read() as connection:
            return await self._forget(connection, list(runs), write=False)

    async def _forget(
        self, connection: AsyncConnection, names: list[str], *, write: bool
    ) -> ForgottenEntries:
        counts: Counter[str] = Counter()
        gone = set(names)
        entries, unreadable, shared = await self._came_from(connection, names, write=write)
        for entry in entries:
            said = [origin for origin in entry.origins if origin.run in gone]
            proposed = isinstance(entry, Skill) and entry.proposed_by in gone
            if not said and not proposed:
                continue
            others = tuple(origin for origin in entry.origins if origin.run not in gone)
            if others and not proposed:
                shared.append(entry.id)
                if write:
                    await self._without(connection, entry.model_copy(update={"origins": others}))
                continue
            counts[COUNTED[entry.kind]] += 1
            if write:
                await connection.execute(delete(memory).where(memory.c.id == entry.id))
        for id in unreadable:
            kind = await self._forget_unreadable(connection, id, gone, write=write)
            if kind is None:
                shared.append(id)
            elif kind in COUNTED:  # a newer version may have kinds that are not counted here
                counts[COUNTED[kind]] += 1
        counts["tools"] = await self._drop_tools(connection, names, write=write)
        return ForgottenEntries(shared=tuple(shared), **counts)

    async def _came_from(
        self, connection: AsyncConnection, names: list[str], *, write: bool
    ) -> tuple[list[MemoryEntry], list[str], list[str]]:
        """Entries that came from these runs, and entries whose origin was never noted.

        Then the ids of entries that this version cannot read: of these runs, and those of which
        nothing tells from which runs they came.
        """
        earlier = await unnoted(connection)
        entries, untold = readable(earlier)
        if write:
            for entry in entries:
                await note_origins(self._database, connection, entry, id=entry.id)
        known = {name for name, _ in earlier}
        rows = [row for row in await entries_from(connection, names) if row[0] not in known]
        noted, unreadable = readable(rows)
        return [*entries, *noted], unreadable, untold

    async def _forget_unreadable(
        self, connection: AsyncConnection, id: str, gone: set[str], *, write: bool
    ) -> str | None:
        """Drop an entry by its noted origins; returns its kind, or None if other runs said it."""
        of_entry = memory_origins.c.entry == id
        runs = set(await connection.scalars(select(memory_origins.c.run).where(of_entry)))
        if others := runs - gone:
            if write:
                # Its text cannot be changed; but it goes with the last of the others.
                lost = delete(memory_origins).where(of_entry, memory_origins.c.run.not_in(others))
                await connection.execute(lost)
            return None
        kind = await connection.scalar(select(memory.c.kind).where(memory.c.id == id))
        if write:
            await connection.execute(delete(memory).where(memory.c.id == id))
        return kind

    async def _without(self, connection: AsyncConnection, entry: MemoryEntry) -> None:
        row = row_of(entry, self._database.cells)
        values = {name: row[name] for name in CHANGEABLE}
        await connection.execute(memory.update().where(memory.c.id == entry.id).values(values))
        await note_origins(self._database, connection, entry, id=entry.id)

    async def _drop_tools(
        self, connection: AsyncConnection, names: list[str], *, write: bool
    ) -> int:
        """Drop tools that only these runs made; a tool that another run made too stays."""
        mine = made_tool_makers.c.run.in_(names)
        made = set(await connection.scalars(select(made_tool_makers.c.hash).where(mine)))
        others = select(made_tool_makers.c.hash).where(
            made_tool_makers.c.hash.in_(made), made_tool_makers.c.run.not_in(names)
        )
        alone = sorted(made - set(await connection.scalars(others)))
        if write:
            await connection.execute(delete(made_tool_makers).where(mine))
            await connection.execute(delete(made_tools).where(made_tools.c.hash.in_(alone)))
        return len(alone)

    async def _drop_verdicts(self, connection: AsyncConnection, names: list[str]) -> None:
        """Drop cached verdicts that these runs paid for, and old ones that name no run."""
        untold = select(verdicts.c.key, verdicts.c.reply).where(verdicts.c.run.is_(None))
        for key, reply in (await connection.execute(untold)).all():
            told = update(verdicts).where(verdicts.c.key == key).values(run=_whose(reply) or "")
            await connection.execute(told)
        await connection.execute(delete(verdicts).where(verdicts.c.run.in_({"", *names})))


def _whose(reply: str) -> str | None:
    verdict = kept(reply)
    return None if verdict is None else verdict.run
