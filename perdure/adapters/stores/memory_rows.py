"""One entry of memory as a row, and back."""

from collections.abc import Iterable

from perdure.domain.memory.entries import MEMORY_ENTRY, MemoryEntry, Skill
from perdure.domain.memory.fading import fades_at
from perdure.domain.memory.words import searchable, terms

CHANGEABLE = ("categories", "name", "learned", "fades_at", "terms", "length", "entry")


def row_of(entry: MemoryEntry) -> dict[str, object]:
    """The columns of an entry."""
    held = terms(searchable(entry))
    skill = entry if isinstance(entry, Skill) else None
    named = (entry.category or "", *(skill.categories if skill else ()))
    return {
        "id": entry.id,
        "kind": entry.kind,
        "categories": categories_line(named),
        "name": skill and skill.name.casefold(),
        "learned": bool(entry.origins),
        "created": entry.created,
        "fades_at": fades_at(entry),
        "terms": " ".join(held),
        "length": len(held),
        "entry": entry.model_dump_json(),
    }


def entry_of(row: str) -> MemoryEntry:
    """The entry of a row's JSON."""
    return MEMORY_ENTRY.validate_json(row)


def categories_line(categories: Iterable[str]) -> str:
    """Categories as they are looked for: in lower case, each between line ends."""
    named = [" ".join(name.split()).casefold() for name in categories]
    return "".join(f"\n{name}\n" for name in named if name)
