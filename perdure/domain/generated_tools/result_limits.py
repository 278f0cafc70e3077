"""What a handler may return: an object of JSON values, of a size that a result may have."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

MOST_VALUES = 100_000
MOST_CHARACTERS = 2_000_000
MOST_DEPTH = 40
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class NoObject:
    """Why a value is no result, as a phrase."""

    problem: str


class _Odd(Exception):
    pass


@dataclass(slots=True)
class _Room:
    values: int = MOST_VALUES
    characters: int = MOST_CHARACTERS

    def take(self, *, values: int = 0, characters: int = 0) -> None:
        self.values -= values
        self.characters -= characters
        if self.values < 0 or self.characters < 0:
            raise _Odd("the result is too large; return less, or a part at a time")


def as_object(value: object) -> dict[str, JsonValue] | NoObject:
    """A returned value as JSON; tuples become lists, nothing else is changed."""
    if value is None:
        return NoObject("it returned nothing; return an object (a dict)")
    if not isinstance(value, Mapping):
        return NoObject(f"it returned {type(value).__name__}; return an object (a dict)")
    try:
        return _object(value, _Room(), MOST_DEPTH, "")
    except _Odd as odd:
        return NoObject(str(odd))


def same(one: JsonValue, other: JsonValue) -> bool:
    """Whether two results are equal; numbers may differ by rounding."""
    match one, other:
        case bool(), _:
            return one is other
        case _, bool():
            return False
        case ((int() | float()), (int() | float())):
            return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        case list(), list():
            return len(one) == len(other) and all(map(same, one, other))
        case dict(), dict():
            return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
        case _:
            return one == other


def _object(
    value: Mapping[object, object], room: _Room, depth: int, path: str
) -> dict[str, JsonValue]:
    room.take(values=1)
    found: dict[str, JsonValue] = {}
    for key, inner in value.items():
        if not isinstance(key, str):
            raise _Odd(f"the result has a key that is no text at {path or 'the top'}: {key!r:.40}")
        room.take(characters=len(key))
        found[_utf8(key)] = _json(inner, room, depth - 1, f"{path}.{key[:40]}" if path else key)
    return found


def _json(value: object, room: _Room, depth: int, path: str) -> JsonValue:
    if depth <= 0:
        raise _Odd(f"the result is nested more than {MOST_DEPTH} levels deep")
    room.take(values=1)
    match value:
        case None | bool():
            return value
        case int():
            if value.bit_length() > 1_024:
                raise _Odd(f"the number at {path} is too large; return it as text")
            return int(value)
        case float():
            if not math.isfinite(value):
                raise _Odd(f"the number at {path} is {value}, which JSON does not have")
            return float(value)
        case str():
            room.take(characters=len(value))
            return _utf8(value)
        case list() | tuple():
            return [_json(one, room, depth - 1, f"{path}[]") for one in value]
        case dict():
            return _object(value, room, depth - 1, path)
        case _:
            raise _Odd(f"the value at {path} is {type(value).__name__}, which JSON does not have")


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
