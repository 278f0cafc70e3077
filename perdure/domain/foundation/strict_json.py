"""JSON that a model wrote, read strictly: a name given twice in one object is refused.

Readers differ in which of the two counts. What one part of a reply says must not be said otherwise
behind its back: a verdict with two scores is no verdict, and a call with two paths names no file.
"""

import json
from collections.abc import Sequence

from pydantic import JsonValue

SHOWN_CHARACTERS = 80


class RepeatedName(ValueError):
    """An object gives one of its names twice."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the name {name[:SHOWN_CHARACTERS]!r} is given twice in one object")
        self.name = name


def once_each(pairs: Sequence[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """The members of an object, for readers that take a hook.

    Raises:
        RepeatedName: one comes twice.
    """
    found: dict[str, JsonValue] = {}
    for name, value in pairs:
        if name in found:
            raise RepeatedName(name)
        found[name] = value
    return found


def read_json(text: str | bytes) -> JsonValue:
    """One JSON value.

    Raises:
        ValueError: the text is none, or an object in it repeats a name.
    """
    return json.loads(text, object_pairs_hook=once_each)


def strict_decoder() -> json.JSONDecoder:
    """A decoder for JSON that stands within other text; it raises `ValueError` as `read_json`."""
    return json.JSONDecoder(object_pairs_hook=once_each)
