"""A trial call of a handler in the sandbox, its outcome, and the two checks that judge it.

The sandbox is the boundary: it has no files, network, environment, processes or other tools.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from perdure.domain.foundation.json_extraction import to_encodable
from perdure.domain.generated_tools.draft import ToolExample
from perdure.domain.generated_tools.rejections import Category, Stage, ToolRefused, refused

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
        # Before the numbers: True equals 1 in Python, and not in JSON.
        case bool(), _:
            return one is other
        case _, bool():
            return False
        # Exactly: whole numbers do not differ by rounding.
        case int(), int():
            return one == other
        case ((int() | float()), (int() | float())):
            return _close(one, other)
        case list(), list():
            return len(one) == len(other) and all(map(same, one, other))
        case dict(), dict():
            return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
        case _:
            return one == other


def _close(one: float, other: float) -> bool:
    try:
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    except OverflowError:  # a whole number that is larger than every float
        return False


def _object(
    value: Mapping[object, object], room: _Room, depth: int, path: str
) -> dict[str, JsonValue]:
    room.take(values=1)
    found: dict[str, JsonValue] = {}
    for key, inner in value.items():
        if not isinstance(key, str):
            raise _Odd(f"the result has a key that is no text at {path or 'the top'}: {key!r:.40}")
        room.take(characters=len(key))
        found[to_encodable(key)] = _json(
            inner, room, depth - 1, f"{path}.{key[:40]}" if path else key
        )
    return found


def _json(value: object, room: _Room, depth: int, path: str) -> JsonValue:
    # A value that holds itself ends here.
    if depth <= 0:
        raise _Odd(f"the result is nested more than {MOST_DEPTH} levels deep")
    room.take(values=1)
    match value:
        case None | bool():
            return value
        case int():
            # No float is larger, and many readers of JSON take every number for one.
            if value.bit_length() > 1_024:
                raise _Odd(f"the number at {path} is too large; return it as text")
            # What is only derived from a number, such as an enum, becomes the plain number.
            return int(value)
        case float():
            if not math.isfinite(value):
                raise _Odd(f"the number at {path} is {value}, which JSON does not have")
            return float(value)
        case str():
            room.take(characters=len(value))
            return to_encodable(value)
        case list() | tuple():
            return [_json(one, room, depth - 1, f"{path}[]") for one in value]
        case dict():
            return _object(value, room, depth - 1, path)
        case _:
            raise _Odd(f"the value at {path} is {type(value).__name__}, which JSON does not have")


_BY_TYPE: dict[str, JsonValue] = {
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "null": None,
}


def synthetic_arguments(parameters: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """One value for each property: its declared default, else its first enum, else by its type."""
    properties = parameters.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {name: synthetic_value(schema) for name, schema in properties.items()}


def synthetic_value(schema: JsonValue) -> JsonValue:
    """The plainest value of a schema: "", 0, false, [] or {} where it declares nothing."""
    if not isinstance(schema, Mapping):
        return None
    if "default" in schema:
        return schema["default"]
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return options[0]
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if kind == "array":
        return []
    if kind == "object":
        return {}
    return _BY_TYPE.get(kind) if isinstance(kind, str) else None


TRIAL_SECONDS = 5.0
SHOWN = 200


@dataclass(frozen=True, slots=True)
class Returned:
    """The handler returned an object."""

    value: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Raised:
    """The code raised; `deliberate` when its own `raise` or `assert` did so."""

    kind: str
    message: str
    deliberate: bool = False

    @property
    def words(self) -> str:
        """Kind and message in one line."""
        return f"{self.kind}: {self.message}".rstrip(": ")[:SHOWN]

    @property
    def is_refusal(self) -> bool:
        """Whether this is how a tool says no to its input."""
        # A stub that raises on purpose refuses nothing: it is not written yet.
        return self.kind != "NotImplementedError" and (self.deliberate or self.kind == "ValueError")


@dataclass(frozen=True, slots=True)
class Crashed:
    """There is no result: a limit was passed, the interpreter ended, or it gave no object."""

    why: str


Trial = Returned | Raised | Crashed


class ToolSandbox(Protocol):
    """Runs the code of made tools, each call in an interpreter that nothing else has used."""

    async def run(
        self, code: str, handler: str, arguments: Mapping[str, JsonValue], *, seconds: float
    ) -> Trial:
        """Execute `code`, then call its handler. Errors of the code are results, not raised."""
        ...


def smoke_refusal(example: ToolExample, trial: Trial) -> ToolRefused | None:
    """Why a declared example shows that the tool is wrong, or None."""
    call = f"the example {_shown(example.arguments)}"
    match trial:
        case Returned(value=value):
            if example.result is None or same(value, example.result):
                return None
            told = f"{call} gave {_shown(value)} instead of {_shown(example.result)}"
            return _refused("smoke", "smoke", told)
        case Raised():
            return _refused("smoke", "smoke", f"{call} ended with {trial.words}")
        case Crashed(why=why):
            return _refused("smoke", "smoke", f"{call}: {why}")


def dry_run_refusal(arguments: Mapping[str, JsonValue], trial: Trial) -> ToolRefused | None:
    """Why plain inputs show that the tool cannot be offered, or None; a refusal of them is fine."""
    call = f"called with {_shown(arguments)}"
    match trial:
        case Returned():
            return None
        case Raised(is_refusal=True):
            return None
        case Raised():
            told = f"{call} it crashed with {trial.words}; raise ValueError for input it refuses"
            return _refused("dry_run", "dry_run", told)
        case Crashed(why=why):
            return _refused("dry_run", "dry_run", f"{call}: {why}")


def _refused(stage: Stage, category: Category, message: str) -> ToolRefused:
    return refused(stage, 422, category, message)


def _shown(value: Mapping[str, JsonValue]) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
