"""What an iteration still lacks, in a few words for people: the same at every door."""

from collections.abc import Iterator

from pydantic import JsonValue

from perdure.domain.turns.records import IterationRecord

SHOWN = 2
CHARACTERS = 60
MATTERING = frozenset({"blocker", "important"})


def lacking(record: IterationRecord) -> list[JsonValue]:
    """What is below full: titles of a judge's findings that matter, else names of dimensions.

    As data of an event: at most `SHOWN` texts, and how many are left out.
    """
    told = list(dict.fromkeys(_told(record)))
    rest = len(told) - SHOWN
    return [*(_short(text) for text in told[:SHOWN]), *([f"{rest} more"] if rest > 0 else [])]


def counted(record: IterationRecord) -> list[JsonValue]:
    """What test programs counted, each once."""
    return list(dict.fromkeys(item.counted for item in record.dimensions.values() if item.counted))


def _told(record: IterationRecord) -> Iterator[str]:
    for name, item in record.dimensions.items():
        if item.score >= 1:
            continue
        # What a check found quotes patterns and schemas; its name says it better.
        titles = [] if item.source == "check" else list(_titles(record, name))
        yield from titles or [name]


def _titles(record: IterationRecord, dimension: str) -> Iterator[str]:
    for finding in record.findings:
        matters = finding.get("severity") in MATTERING
        if matters and finding.get("dimension") == dimension:
            yield str(finding.get("title"))


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= CHARACTERS else f"{flat[: CHARACTERS - 1].rstrip()}…"
