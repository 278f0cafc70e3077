"""One entry of memory as a row, and back."""

from collections.abc import Iterable, Sequence

import structlog
from pydantic import ValidationError
from sqlalchemy import ColumnElement, TextClause, bindparam, cast, column, literal_column, text
from sqlalchemy.dialects.postgresql import TSQUERY, TSVECTOR

from perdure.adapters.stores.cells import Cells
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import memory
from perdure.domain.foundation.errors import StoreError
from perdure.domain.foundation.tolerance import read_as
from perdure.domain.memory.decay import fades_at
from perdure.domain.memory.entries import MEMORY_ENTRY, MemoryEntry, Skill
from perdure.domain.memory.tokenizer import searchable, terms

_log = structlog.get_logger(__name__)

CHANGEABLE = ("categories", "name", "learned", "fades_at", "terms", "length", "entry")


def row_of(entry: MemoryEntry, cells: Cells) -> dict[str, object]:
    """The columns of an entry; what it is looked up by is digests where the store has a key."""
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
    """The entry of a row's JSON; raises `StoreError`, with the id, when it cannot be read."""
    try:
        return read_as(MEMORY_ENTRY, row)
    except ValidationError as error:
        raise StoreError(
            f"The entry {name} of memory cannot be read by this version: {_fact(error)}.",
            cure=f"Run the version that wrote it, or drop it: perdure memory forget {name}",
        ) from error


def readable(rows: Iterable[tuple[str, str]]) -> tuple[list[MemoryEntry], list[str]]:
    """The entries of rows of id and JSON, and the ids of those that cannot be read."""
    entries: list[MemoryEntry] = []
    unreadable: list[str] = []
    for name, row in rows:
        try:
            entries.append(entry_of(row, name=name))
        except StoreError as error:
            _log.warning("memory_entry_unreadable", entry=name, fault=error.message)
            unreadable.append(name)
    return entries, unreadable


def _fact(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


def category_forms(name: str, cells: Cells) -> list[str]:
    """A category as it is looked for: in lower case, between line ends; the current form first."""
    return [f"\n{form}\n" for form in cells.digests(" ".join(name.split()).casefold())]


_SQLITE_HOLDERS = "SELECT term, doc FROM memory_vocabulary WHERE term IN :terms"


_POSTGRESQL_HOLDERS = """
    SELECT asked.term, count(*) FROM unnest(CAST(:terms AS TEXT[])) AS asked (term)
    JOIN memory ON memory.lexemes @@ CAST('''' || asked.term || '''' AS TSQUERY)
    GROUP BY asked.term
"""


_SQLITE_HOLDING = "SELECT rowid FROM memory_terms WHERE memory_terms MATCH :asked"


def holders(database: Database, terms: Sequence[str]) -> TextClause:
    """A query for the terms that are known, each with the number of entries that hold it."""
    if database.dialect_name == "sqlite":
        expanded = bindparam("terms", list(terms), expanding=True)
        return text(_SQLITE_HOLDERS).bindparams(expanded)
    return text(_POSTGRESQL_HOLDERS).bindparams(terms=list(terms))


def holding(database: Database, terms: Sequence[str]) -> ColumnElement[bool]:
    """The condition that an entry holds one of the terms at least."""
    terms = [form for term in terms for form in database.cells.digests(term)]
    if database.dialect_name == "sqlite":
        asked = " OR ".join(f'"{term}"' for term in terms)
        rows = text(_SQLITE_HOLDING).bindparams(asked=asked).columns(column("rowid"))
        return memory.c.number.in_(rows)
    asked = " | ".join(f"'{term}'" for term in terms)
    held = literal_column("memory.lexemes", TSVECTOR)
    return held.bool_op("@@")(cast(asked, TSQUERY))
