"""Memory in the database: entries as JSON, with columns for lookups."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from pydantic import ValidationError
from sqlalchemy import (
    ColumnElement,
    TextClause,
    bindparam,
    cast,
    column,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import TSQUERY, TSVECTOR
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.encryption import Cells
from perdure.adapters.stores.tables import memory, memory_origins, memory_totals, memory_uses
from perdure.domain.foundation.errors import InvalidInput, NotFound, Unreadable
from perdure.domain.foundation.tolerance import first_problem, read_as
from perdure.domain.memory.deduplication import merged, same_lesson, telltale_terms
from perdure.domain.memory.entries import MEMORY_ENTRY, Kind, Learning, MemoryEntry, Skill
from perdure.domain.memory.ranking import fades_at, selective
from perdure.domain.memory.skills import after_outcome
from perdure.domain.memory.store import Candidates, Corpus, Kept
from perdure.domain.memory.tokenizer import overlap, searchable, terms
from perdure.event_log import get_logger

_log = get_logger(__name__)

CHANGEABLE = ("categories", "name", "learned", "fades_at", "terms", "length", "entry")


def row_of(entry: MemoryEntry, cells: Cells) -> dict[str, object]:
    """The columns of an entry; with a key, the lookup columns hold digests."""
    held = terms(searchable(entry))
    skill = entry if isinstance(entry, Skill) else None
    named = (entry.category or "", *(skill.categories if skill else ()))
    return {
        "id": entry.id,
        "kind": entry.kind,
        "categories": "".join(category_forms(name, cells)[0] for name in named if name.strip()),
        "name": skill and cells.digest(skill.name.casefold()),
        "learned": bool(entry.origins),
        "created": entry.created,
        "fades_at": fades_at(entry),
        "terms": " ".join(cells.digest(term) for term in held),
        "length": len(held),
        "entry": entry.model_dump_json(),
    }


def entry_of(row: str, *, name: str) -> MemoryEntry:
    """The entry in a row's JSON; raises `Unreadable` with the id if it cannot be read."""
    try:
        return read_as(MEMORY_ENTRY, row)
    except ValidationError as error:
        raise Unreadable(
            f"The entry {name} of memory cannot be read by this version: {first_problem(error)}.",
            cure=f"Run the version that wrote it, or drop it: perdure memory forget {name}",
        ) from error


def readable(rows: Iterable[tuple[str, str]]) -> tuple[list[MemoryEntry], list[str]]:
    """The entries in rows of id and JSON, and the ids of rows that cannot be read."""
    entries: list[MemoryEntry] = []
    unreadable: list[str] = []
    for name, row in rows:
        try:
            entries.append(entry_of(row, name=name))
        except Unreadable as error:
            _log.warning("memory_entry_unreadable", entry=name, fault=error.message)
            unreadable.append(name)
    return entries, unreadable


def category_forms(name: str, cells: Cells) -> list[str]:
    """The stored forms of a category (lower case, between line ends), the current form first."""
    return [f"\n{form}\n" for form in cells.digests(" ".join(name.split()).casefold())]


# Queries take rare terms first: a limited selection among the thousands of entries with a common
# word would be arbitrary.
_SQLITE_HOLDERS = "SELECT term, doc FROM memory_vocabulary WHERE term IN :terms"


_POSTGRESQL_HOLDERS = """
    SELECT asked.term, count(*) FROM unnest(CAST(:terms AS TEXT[])) AS asked (term)
    JOIN memory ON memory.lexemes @@ CAST('''' || asked.term || '''' AS TSQUERY)
    GROUP BY asked.term
"""


_SQLITE_HOLDING = "SELECT rowid FROM memory_terms WHERE memory_terms MATCH :asked"


def holders(database: Database, terms: Sequence[str]) -> TextClause:
    """A query for the known ones among terms, each with the number of entries that hold it."""
    if database.dialect_name == "sqlite":
        expanded = bindparam("terms", list(terms), expanding=True)
        return text(_SQLITE_HOLDERS).bindparams(expanded)
    return text(_POSTGRESQL_HOLDERS).bindparams(terms=list(terms))


def holding(database: Database, terms: Sequence[str]) -> ColumnElement[bool]:
    """The condition that an entry holds at least one of the terms."""
    terms = [form for term in terms for form in database.cells.digests(term)]
    if database.dialect_name == "sqlite":
        # Terms are letters and digits or digests, so no quote can end one early.
        asked = " OR ".join(f'"{term}"' for term in terms)
        rows = text(_SQLITE_HOLDING).bindparams(asked=asked).columns(column("rowid"))
        return memory.c.number.in_(rows)
    asked = " | ".join(f"'{term}'" for term in terms)
    held = literal_column("memory.lexemes", TSVECTOR)
    return held.bool_op("@@")(cast(asked, TSQUERY))


LOCK = "perdure memory"
NAMED_AT_MOST = 3
ORIGINS_AT_ONCE = 400
FORGETFUL: tuple[Kind, ...] = ("learning", "episode")


class SqlMemory:
    """`MemoryStore` over one table of entries and one of their uses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, entry: MemoryEntry) -> Kept:
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            known = await self._known(connection, entry)
            if known is None:
                await connection.execute(insert(memory).values(row_of(entry, self._database.cells)))
                await note_origins(self._database, connection, entry, id=entry.id)
                return Kept(entry=entry)
            new = merged(known, entry)
            if new != known:
                await self._write(connection, new)
            return Kept(entry=new, merged=True)

    async def replace(self, entry: MemoryEntry) -> None:
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            if not await self._write(connection, entry):
                raise _not_found(entry.id)

    async def get(self, entry: str) -> MemoryEntry:
        # Not LIKE: SQLite's ignores case, and people may type its wildcards.
        same = func.substr(memory.c.id, 1, len(entry)) == entry
        query = select(memory.c.id, memory.c.entry).where(same)
        # By length, so that a whole id comes before longer ones that begin with it.
        query = query.order_by(func.length(memory.c.id), memory.c.id).limit(NAMED_AT_MOST)
        async with self._database.read() as connection:
            found = [(name, row) for name, row in await connection.execute(query)]
        if not found or not entry:
            raise _not_found(entry)
        if len(found) > 1 and found[0][0] != entry:
            names = ", ".join(name for name, _ in found)
            raise InvalidInput(
                f"Several entries of memory begin with {entry!r}: {names}.",
                cure="Give more of the id.",
            )
        name, row = found[0]
        return entry_of(row, name=name)

    async def skill(self, name: str) -> Skill | None:
        async with self._database.read() as connection:
            return await self._skill(connection, name)

    async def list(
        self, *, kinds: Sequence[Kind] = (), category: str | None = None, limit: int = 100
    ) -> Sequence[MemoryEntry]:
        query = select(memory.c.id, memory.c.entry).limit(limit)
        query = query.order_by(memory.c.created.desc(), memory.c.id)
        if kinds:
            query = query.where(memory.c.kind.in_(kinds))
        if category is not None:
            forms = category_forms(category, self._database.cells)
            alike = (memory.c.categories.contains(form, autoescape=True) for form in forms)
            query = query.where(or_(*alike))
        async with self._database.read() as connection:
            rows = await connection.execute(query)
            return readable((name, row) for name, row in rows)[0]

    async def unreadable(self) -> Sequence[str]:
        query = select(memory.c.id, memory.c.entry).order_by(memory.c.id)
        async with self._database.read() as connection:
            rows = await connection.execute(query)
            return readable((name, row) for name, row in rows)[1]

    async def candidates(
        self, terms: Sequence[str], *, kinds: Sequence[Kind], limit: int = 500
    ) -> Candidates:
        async with self._database.read() as connection:
            corpus = await self._corpus(connection, terms)
            chosen = selective(terms, corpus, limit=limit)
            if not chosen:
                return Candidates(corpus=corpus)
            wanted = memory.c.kind.in_(kinds) & holding(self._database, chosen)
            found, unreadable = await _read(connection, wanted)
            return Candidates(entries=tuple(found), corpus=corpus, unreadable=tuple(unreadable))

    async def mark_used(self, entries: Sequence[str], *, run: str, at: datetime) -> int:
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            known = await _entries(connection, memory.c.id.in_(entries))
            counted = 0
            for entry in known:
                row = {"run": run, "entry": entry.id, "used_at": at}
                new = self._database.insert(memory_uses).values(row).on_conflict_do_nothing()
                if await connection.scalar(new.returning(memory_uses.c.entry)) is None:
                    continue
                counted += 1
                # A step that is repeated late must not move the time back.
                last = max(at, entry.last_used or at)
                used = {"uses": entry.uses + 1, "last_used": last}
                await self._write(connection, entry.model_copy(update=used))
            return counted

    async def used(self, run: str) -> Sequence[str]:
        query = select(memory_uses.c.entry).where(memory_uses.c.run == run)
        return await self._database.values(query.order_by(memory_uses.c.entry))

    async def record_outcome(self, run: str, *, accepted: bool) -> Sequence[str]:
        # A repeated step must not count its outcome again; another outcome replaces it.
        anew = (memory_uses.c.run == run) & memory_uses.c.accepted.is_distinct_from(accepted)
        earlier = select(memory_uses.c.entry, memory_uses.c.accepted).where(anew)
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            before = dict((await connection.execute(earlier)).all())
            await connection.execute(update(memory_uses).where(anew).values(accepted=accepted))
            for entry in await _entries(connection, memory.c.id.in_(before)):
                new = after_outcome(entry, accepted=accepted, before=before[entry.id])
                await self._write(connection, new)
        return sorted(before)

    async def forget(self, entry: str) -> None:
        if not await self._drop(memory.c.id == entry):
            raise _not_found(entry)

    async def forget_faded(self, now: datetime) -> int:
        faded = memory.c.learned & memory.c.kind.in_(FORGETFUL) & (memory.c.fades_at <= now)
        async with self._database.read() as connection:
            # Read first: mostly there is nothing to drop, and reading waits for no writer.
            if await connection.scalar(select(memory.c.id).where(faded).limit(1)) is None:
                return 0
        return await self._drop(faded)

    async def _drop(self, unwanted: ColumnElement[bool]) -> int:
        async with self._database.write() as connection:
            # Or an entry could go while a use of it is being noted, which would fail.
            await self._database.lock(connection, LOCK)
            return (await connection.execute(delete(memory).where(unwanted))).rowcount

    async def _known(self, connection: AsyncConnection, entry: MemoryEntry) -> MemoryEntry | None:
        """The entry that a new one repeats: one with its id or skill name, or a near-duplicate."""
        same = await _entries(connection, memory.c.id == entry.id)
        if same:
            return same[0]
        if isinstance(entry, Skill):
            return await self._skill(connection, entry.name)
        if not isinstance(entry, Learning):
            return None
        held = sorted(set(terms(entry.text)))
        telltale = telltale_terms(entry.text, await self._corpus(connection, held))
        if not telltale:
            return None
        alike = (memory.c.kind == "learning") & holding(self._database, telltale)
        twins = [other for other in await _entries(connection, alike) if same_lesson(other, entry)]
        return min(twins, key=lambda twin: (-overlap(twin.text, entry.text), twin.id), default=None)

    async def _corpus(self, connection: AsyncConnection, asked: Sequence[str]) -> Corpus:
        totals = select(memory_totals.c.entries, memory_totals.c.length)
        entries, length = (await connection.execute(totals)).one()
        if not entries or not asked:
            return Corpus(entries=entries)
        return Corpus(
            entries=entries,
            mean_terms=int(length) / entries,
            holders=await self._holders(connection, asked),
        )

    async def _holders(self, connection: AsyncConnection, asked: Sequence[str]) -> dict[str, int]:
        """How many entries hold each term, under all keys."""
        meant = {form: term for term in asked for form in self._database.cells.digests(term)}
        counts: Counter[str] = Counter()
        for form, count in await connection.execute(holders(self._database, list(meant))):
            counts[meant[str(form)]] += int(count)
        return dict(counts)

    async def _skill(self, connection: AsyncConnection, name: str) -> Skill | None:
        forms = self._database.cells.digests(name.casefold())
        wanted = (memory.c.kind == "skill") & memory.c.name.in_(forms)
        found = await _entries(connection, wanted)
        return next((entry for entry in found if isinstance(entry, Skill)), None)

    async def _write(self, connection: AsyncConnection, entry: MemoryEntry) -> bool:
        row = row_of(entry, self._database.cells)
        change = update(memory).where(memory.c.id == entry.id)
        changed = await connection.execute(change.values({name: row[name] for name in CHANGEABLE}))
        if not changed.rowcount:
            return False
        await note_origins(self._database, connection, entry, id=entry.id)
        return True


async def note_origins(
    database: Database, connection: AsyncConnection, entry: MemoryEntry, *, id: str
) -> None:
    """Note which runs an entry came from; needed again after each change of its text."""
    runs = {origin.run for origin in entry.origins if origin.run}
    if isinstance(entry, Skill) and entry.proposed_by:
        runs.add(entry.proposed_by)
    gone = memory_origins.c.entry == id, memory_origins.c.run.not_in(runs)
    await connection.execute(delete(memory_origins).where(*gone))
    if runs:
        new = database.insert(memory_origins).values([{"run": run, "entry": id} for run in runs])
        await connection.execute(new.on_conflict_do_nothing())
    # Last, after the entry: a trigger takes this mark away whenever the entry changes.
    await connection.execute(update(memory).where(memory.c.id == id).values(noted=True))


async def entries_from(connection: AsyncConnection, runs: Sequence[str]) -> list[tuple[str, str]]:
    """Ids and texts of entries that came from these runs."""
    found: dict[str, str] = {}
    for start in range(0, len(runs), ORIGINS_AT_ONCE):
        named = select(memory_origins.c.entry).where(
            memory_origins.c.run.in_(runs[start : start + ORIGINS_AT_ONCE])
        )
        query = select(memory.c.id, memory.c.entry).where(memory.c.id.in_(named))
        for name, row in await connection.execute(query):
            found[name] = row
    return sorted(found.items())


async def unnoted(connection: AsyncConnection) -> list[tuple[str, str]]:
    """Ids and texts of entries without noted origins, which an earlier version wrote."""
    query = select(memory.c.id, memory.c.entry).where(memory.c.noted.is_(False))
    return [(name, row) for name, row in await connection.execute(query)]


async def _entries(connection: AsyncConnection, wanted: ColumnElement[bool]) -> list[MemoryEntry]:
    return (await _read(connection, wanted))[0]


async def _read(
    connection: AsyncConnection, wanted: ColumnElement[bool]
) -> tuple[list[MemoryEntry], list[str]]:
    query = select(memory.c.id, memory.c.entry).where(wanted).order_by(memory.c.id)
    return readable((name, row) for name, row in await connection.execute(query))


def _not_found(entry: str) -> NotFound:
    return NotFound(
        f"Memory holds no entry {entry!r}.", cure="`perdure memory list` shows what there is."
    )
