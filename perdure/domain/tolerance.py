"""Reading what another version wrote: fields that this one does not know are left out.

Files and messages of people stay strict, for there an unknown field is a typing error. What our own
processes write for each other (inputs, states, step messages, rows, blobs) may come from a version
with more fields, after an upgrade of a part or after a rollback.
"""

import json
from typing import TypeVar

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
UNKNOWN = "extra_forbidden"


def read(model: type[M], data: str | bytes) -> M:
    """A model from JSON that our own processes wrote.

    Raises:
        ValidationError: something else is wrong with it than fields that are not known here.
    """
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        known, _ = without_unknown(data, error)
        return model.model_validate_json(known)


def read_as(adapter: TypeAdapter[T], data: str | bytes) -> T:
    """The same for a union."""
    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        known, _ = without_unknown(data, error)
        return adapter.validate_json(known)


def without_unknown(data: str | bytes, error: ValidationError) -> tuple[str, tuple[str, ...]]:
    """The JSON without the fields that a validation did not know, and their paths.

    Raises:
        ValidationError: the same one, where it has another cause.
    """
    places = [found["loc"] for found in error.errors(include_url=False) if found["type"] == UNKNOWN]
    if not places or len(places) != error.error_count():
        raise error
    whole: JsonValue = json.loads(data)
    for place in places:
        _drop(whole, place)
    return json.dumps(whole), tuple(".".join(str(step) for step in place) for place in places)


def _drop(value: JsonValue, place: tuple[int | str, ...]) -> None:
    """Take one field out; steps that are tags of unions, and no keys, are passed over."""
    *way, name = place
    for step in way:
        value = _inside(value, step)
    if isinstance(value, dict):
        value.pop(str(name), None)


def _inside(value: JsonValue, step: int | str) -> JsonValue:
    match value, step:
        case dict(), str():
            return value.get(step, value)
        case list(), int() if step < len(value):
            return value[step]
        case _:
            return value
