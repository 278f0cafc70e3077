"""Reads what another version wrote, and leaves out what this version does not know.

Those are fields, and values of closed sets: a field with such a value has its default, and a thing
in a list whose `type` is not known (an event, say) is passed over. Where a value is needed and has
no default, the most careful known one stands in for it (an outcome of a newer version reads as
`failed`, and the text beside it says what it was); where there is none, the reading fails.

Files and messages of people stay strict, for there an unknown field is a typing error. What our own
processes write for each other (inputs, states, step messages, rows, blobs) may come from a version
with more fields, after an upgrade of a part or after a rollback.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from perdure.domain.foundation.errors import Unreadable

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
UNKNOWN = "extra_forbidden"
NEWER = "literal_error"
TAG = "type"
WROTE_IT = "Run the version that wrote it."
# How an unknown value of a field that only describes is read, by the field's name.
STAND_INS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"outcome": ("failed", "error"), "phase": ("executing",), "severity": ("important",)}
)
Place = tuple[int | str, ...]


def read(model: type[M], data: str | bytes) -> M:
    """A model from JSON that our own processes wrote.

    Raises:
        ValidationError: something else is wrong with it than fields that are not known here.
    """
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        known, _ = without_unknown(data, error)
        return _again(lambda: model.model_validate_json(known), error)


def read_stored(model: type[M], data: str | bytes, *, what: str, cure: str = WROTE_IT) -> M:
    """A model from what the store holds of `what`, such as `the result of run-1`.

    Raises:
        Unreadable: this version cannot read it.
    """
    try:
        return read(model, data)
    except ValidationError as error:
        raise Unreadable(
            f"The store holds {what}, but this version cannot read it: {first_problem(error)}.",
            cure=cure,
        ) from error


def first_problem(error: ValidationError) -> str:
    """The first problem of a validation with its place, without the value found there."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


def read_as(adapter: TypeAdapter[T], data: str | bytes) -> T:
    """The same for a union."""
    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        known, _ = without_unknown(data, error)
        return _again(lambda: adapter.validate_json(known), error)


def read_value(model: type[M], value: object) -> M:
    """The same for a value that came decoded: the details of an error, a part of a frame."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        # A message of another program may hold bytes, which are no JSON.
        known, _ = without_unknown(json.dumps(value, default=str), error)
        return _again(lambda: model.model_validate_json(known), error)


def _again(reading: Callable[[], T], error: ValidationError) -> T:
    """Read what is left; if that fails too, the first error says what is wrong."""
    try:
        return reading()
    except ValidationError:
        raise error from None


def without_unknown(data: str | bytes, error: ValidationError) -> tuple[str, tuple[str, ...]]:
    """The JSON without what a validation did not know, and the paths of that.

    Raises:
        ValidationError: the same one, where it has another cause.
    """
    found = error.errors(include_url=False)
    if any(one["type"] not in {UNKNOWN, NEWER} for one in found):
        raise error
    whole: JsonValue = json.loads(data)
    places, instead = list[Place](), dict[Place, str]()
    for one, place in zip(found, _places(whole, found), strict=True):
        stand_in = _stand_in(one)
        places.append(place if stand_in else _left_out(place, newer=one["type"] == NEWER))
        if stand_in:
            instead[place] = stand_in
    # The last of a list first: the others keep their places.
    for place in sorted(set(places), key=_in_order, reverse=True):
        _drop(whole, place, instead=instead.get(place))
    return json.dumps(whole), tuple(".".join(str(step) for step in place) for place in places)


def _places(whole: JsonValue, found: Sequence[ErrorDetails]) -> list[Place]:
    """Where in the JSON each problem is, in the order given.

    A validation names more steps than there are keys: the tag of a union is one too, and may be
    called like a field beside it (`agent` in a specification of the kind `agent`). So a place may
    be read in several ways. No two problems have one place, and those of one reading choose first.
    """
    readings = [list(dict.fromkeys(_readings(whole, one["loc"]))) for one in found]
    chosen = dict[int, Place]()
    for at in sorted(range(len(found)), key=lambda at: len(readings[at])):
        free = [place for place in readings[at] if place not in chosen.values()]
        exact = [place for place in free if _value_at(whole, place) == found[at]["input"]]
        chosen[at] = next(iter((*exact, *free, *readings[at])), found[at]["loc"])
    return [chosen[at] for at in range(len(found))]


def _readings(value: JsonValue, place: Place) -> Iterator[Place]:
    """The ways from a value to something that is there; a text may be a key, or only a tag."""
    if not place:
        return
    step, rest = place[0], place[1:]
    if _has(value, step):
        if not rest:
            yield (step,)
        for way in _readings(_inside(value, step), rest):
            yield (step, *way)
    if isinstance(step, str):
        yield from _readings(value, rest)


def _stand_in(error: ErrorDetails) -> str | None:
    """The value to read in place of one that a newer version added, where there is one."""
    if error["type"] != NEWER:
        return None
    known: str = error.get("ctx", {}).get("expected", "")
    name = str(error["loc"][-1]) if error["loc"] else ""
    return next((value for value in STAND_INS.get(name, ()) if f"'{value}'" in known), None)


def _left_out(place: Place, *, newer: bool) -> Place:
    """The place to drop for an unknown value: its own, or the list item whose type it is."""
    of_a_thing = newer and len(place) > 1 and place[-1] == TAG and isinstance(place[-2], int)
    return place[:-1] if of_a_thing else place


def _in_order(place: Place) -> tuple[tuple[bool, int, str], ...]:
    return tuple((True, step, "") if isinstance(step, int) else (False, 0, step) for step in place)


def _drop(value: JsonValue, place: Place, *, instead: str | None = None) -> None:
    """Take one value out, or put another in its place."""
    *way, name = place
    for step in way:
        value = _inside(value, step)
    match value, name:
        case dict(), _ if instead is not None:
            value[str(name)] = instead
        case dict(), _:
            value.pop(str(name), None)
        case list(), int() if name < len(value):
            value.pop(name)
        case _:
            return


def _value_at(value: JsonValue, place: Place) -> JsonValue:
    for step in place:
        value = _inside(value, step)
    return value


def _has(value: JsonValue, step: int | str) -> bool:
    match value, step:
        case dict(), str():
            return step in value
        case list(), int():
            return step < len(value)
        case _:
            return False


def _inside(value: JsonValue, step: int | str) -> JsonValue:
    match value, step:
        case dict(), str():
            return value.get(step, value)
        case list(), int() if step < len(value):
            return value[step]
        case _:
            return value
