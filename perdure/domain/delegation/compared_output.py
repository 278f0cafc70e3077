"""What of workers' results the stall rules compare: prose as it is, structured results by leaves.

Names and brackets of a structured result are alike whatever it says, and so are fields that every
worker fills with the same words. So only the values at the leaves are compared, without those that
are equal on both sides.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from perdure.domain.foundation.json_extraction import as_text, value_of

COMPARED_CHARACTERS = 2_000
# Beyond this many characters in all an exact comparison would hold a worker for seconds.
COMPARED_IN_ALL = 40_000
_LEAVES, _PROSE = "leaves", "prose"

Leaf = tuple[str, str]
Reading = tuple[tuple[Leaf, ...], str]


def reading_of(results: Sequence[str]) -> str:
    """What is kept of an iteration's results, up to 2,000 characters of each; empty for nothing."""
    prose: list[str] = []
    leaves: list[Leaf] = []
    for text in results:
        value = value_of(text)
        if isinstance(value, dict | list):
            leaves += _beginning(_leaves(value), COMPARED_CHARACTERS)
        elif text.strip():
            prose.append(text[:COMPARED_CHARACTERS])
    joined = "\n\n".join(prose)[:COMPARED_IN_ALL]
    if not leaves:
        return joined
    kept = [*_beginning(iter(leaves), COMPARED_IN_ALL - len(joined))]
    return json.dumps({_LEAVES: kept, _PROSE: joined}, ensure_ascii=False)


def compared(before: str, now: str) -> tuple[str, str]:
    """The two texts whose likeness says whether the work changed."""
    (old, old_prose), (new, new_prose) = _read(before), _read(now)
    # Counted, not as sets: three equal rows in the one are not one row in the other.
    same = Counter(old) & Counter(new)
    return _told(old, same, old_prose), _told(new, same, new_prose)


def _read(reading: str) -> Reading:
    value = value_of(reading)
    # Prose alone is stored as it is, by older versions too.
    if not isinstance(value, dict) or value.keys() != {_LEAVES, _PROSE}:
        return (), reading
    given, prose = value[_LEAVES], value[_PROSE]
    pairs = [item for item in given if isinstance(item, list)] if isinstance(given, list) else []
    return tuple((str(path), str(text)) for path, text in pairs), str(prose)


def _told(leaves: Sequence[Leaf], same: Counter[Leaf], prose: str) -> str:
    # A copy, since both sides leave the same leaves out.
    left_out = Counter(same)
    values: list[str] = []
    for leaf in leaves:
        if left_out[leaf]:
            left_out[leaf] -= 1
        else:
            values.append(leaf[1])
    return "\n".join((*values, *([prose] if prose else [])))


def _leaves(value: JsonValue, path: str = "") -> Iterator[Leaf]:
    """The values at the leaves, each with its place; the items of a list share one."""
    match value:
        case dict():
            for name, item in value.items():
                yield from _leaves(item, f"{path}.{name}")
        case list():
            for item in value:
                yield from _leaves(item, f"{path}[]")
        case _:
            yield path, as_text(value)


def _beginning(leaves: Iterator[Leaf], limit: int) -> Iterator[Leaf]:
    """The leaves whose values fit into so many characters, the last one as far as it fits."""
    for path, text in leaves:
        if limit <= 0:
            return
        yield path, text[:limit]
        # The values are joined by line breaks.
        limit -= len(text) + 1
