"""One entry of memory as a row, and back."""

from collections.abc import Iterable

import structlog
from pydantic import ValidationError

from perdure.adapters.stores.cells import Cells
from perdure.domain.errors import StoreError
from perdure.domain.memory.entries import MEMORY_ENTRY, MemoryEntry, Skill
from perdure.domain.memory.fading import fades_at
from perdure.domain.memory.words import searchable, terms
from perdure.domain.tolerance import read_as

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
