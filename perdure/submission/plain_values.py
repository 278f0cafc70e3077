"""Makes data of what Python programs hand over: arrays, frames, dates, paths, exact numbers.

No such library is imported here; its objects are known by the methods that they share. What JSON
cannot say is refused with its place, and never guessed.
"""

import math
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Protocol, runtime_checkable
from uuid import UUID

from pydantic import BaseModel, JsonValue

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import Problem, format_value, path_of, repeated

MOST_DEEP = 100
Steps = tuple[int | str, ...]
DATA = "a text, a number, true, false, null, a list or an object"
NUMBER = "a finite number, or null where there is none"
TEXT = "a text of whole characters, without half of a surrogate pair"
DECODED = "a text: value.decode() makes one of bytes"
ROWS = "plain data: to_dict('records') makes a list of its rows"
ORDERED = "a list: a set has no order"
NAMED = (
    "the name of a check or tool. No function travels to a worker: save it in a file, and name "
    "that as a plugin, as in Client.connect(plugins=['./checks.py'])"
)
# What pandas has for an empty cell. It is no number, and not equal to itself.
EMPTY = frozenset({"NaTType", "NAType"})
MOMENTS = frozenset({"datetime64", "timedelta64"})
MOST_TOLD = 20


class _HoldsItself(Exception):
    """A value goes on below `MOST_DEEP`; carries the problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.path)
        self.problem = problem


@runtime_checkable
class Frame(Protocol):
    """A table as pandas and polars have it."""

    columns: Iterable[object]

    def to_dict(self, orient: str, /) -> list[dict[str, object]]: ...


@runtime_checkable
class _Rows(Protocol):
    def to_dicts(self) -> list[dict[str, object]]: ...


@runtime_checkable
class _Scalar(Protocol):
    shape: tuple[int, ...]

    def item(self) -> object: ...


def plain_fields(given: Mapping[str, object], *, heading: str) -> dict[str, JsonValue]:
    """The fields as plain data.

    Args:
        given: as a program has them.
        heading: what they are, at the beginning of the error.

    Raises:
        InvalidInput: JSON cannot say a value; the message lists all.
    """
    problems: list[Problem] = []
    fields: dict[str, JsonValue] = {}
    with _told(problems):
        fields = _fields(given, (), problems)
    _settle(problems, heading)
    return fields


def plain_rows(given: object, *, heading: str) -> list[JsonValue]:
    """The inputs of an experiment as plain data: a list, a generator, an array or a frame.

    A frame is taken row by row; what is empty in it (NaN, NaT, NA, None) is null.

    Raises:
        InvalidInput: it is no list, or JSON cannot say a value; the message lists all.
    """
    problems: list[Problem] = []
    rows: Iterable[object] = ()
    if isinstance(given, Frame):
        rows = _records(given, problems)
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        rows = given
    else:
        problems.append(_refused(("inputs",), given, "a list, a frame, or the path of a file"))
    told: list[JsonValue] = []
    with _told(problems):
        told = [_value(row, ("inputs", at), problems) for at, row in enumerate(rows, start=1)]
    _settle(problems, heading)
    return told


def unsound(given: JsonValue, *, at: Steps = ()) -> tuple[Problem, ...]:
    """A problem for each number and text of some data that no reader of JSON takes."""
    problems: list[Problem] = []
    with _told(problems):
        _value(given, at, problems)
    return tuple(problems)


@contextmanager
def _told(problems: list[Problem]) -> Generator[None]:
    """Read until a value holds itself; that is one more problem, and the last."""
    try:
        yield
    except _HoldsItself as found:
        problems.append(found.problem)


def _records(frame: "Frame", problems: list[Problem]) -> list[dict[str, object]]:
    """The rows of a frame, whose empty cells are None."""
    names = [str(name) for name in frame.columns]
    # pandas lets columns share a name, and of these its rows keep the last one alone.
    if twice := repeated(names):
        allowed = "columns with a name of their own each"
        problems.append(_refused(("inputs",), ", ".join(twice), allowed))
        return []
    # polars has a method of its own for rows.
    rows = frame.to_dicts() if isinstance(frame, _Rows) else frame.to_dict("records")
    return [
        {name: None if _is_empty(value) else value for name, value in row.items()} for row in rows
    ]


def _is_empty(value: object) -> bool:
    number = isinstance(value, float) and math.isnan(value)
    return number or type(value).__name__ in EMPTY


def _fields(
    given: Mapping[str, object], at: Steps, problems: list[Problem]
) -> dict[str, JsonValue]:
    told: dict[str, JsonValue] = {}
    keys: Mapping[object, object] = {**given}  # a program may use others than texts
    for name, value in keys.items():
        if not isinstance(name, str):
            problems.append(_refused(at, name, "names that are texts"))
            continue
        told[str(_text(name, at, problems))] = _value(value, (*at, name), problems)
    return told


def _value(value: object, at: Steps, problems: list[Problem]) -> JsonValue:
    """The value as data; what JSON cannot say becomes null, with a problem."""
    match value:
        # Before numbers, since Python takes true and false for some.
        case None | bool():
            return value
        # Before texts and numbers, which members of some enumerations are too.
        case Enum():
            return _value(value.value, at, problems)
        case str():
            return _text(value, at, problems)
        case int():
            return int(value)
        # numpy's float64 is a `float` too; data has the plain one.
        case float():
            return float(value) if math.isfinite(value) else _no(at, value, NUMBER, problems)
        case _ if len(at) > MOST_DEEP:
            # Not one more problem among others: where two values of a tree name what they are in,
            # the ways down double at each level.
            raise _HoldsItself(_refused(at, "…", "a value that does not hold itself"))
        # Before iterables: iterating over a model gives pairs of its fields.
        case BaseModel():
            return _value(value.model_dump(by_alias=True), at, problems)
        case Mapping():
            return dict(_fields(value, at, problems))
        case _ if _is_empty(value):
            return _no(at, value, NUMBER, problems)
        case _:
            return _foreign(value, at, problems)


def _foreign(value: object, at: Steps, problems: list[Problem]) -> JsonValue:
    """What only Python knows."""
    match value:
        # As a text: a float would lose digits that somebody chose exact numbers for.
        case Decimal():
            return str(value) if value.is_finite() else _no(at, value, NUMBER, problems)
        case date() | datetime() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case PurePath() | UUID():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return _no(at, value, DECODED, problems)
        case set() | frozenset():
            return _no(at, value, ORDERED, problems)
        # Before iterables: iterating over a frame gives the names of its columns.
        case Frame():
            return _no(at, value, ROWS, problems)
        case _ if callable(value):
            return _no(at, value, NAMED, problems)
        case _:
            return _array(value, at, problems)


def _array(value: object, at: Steps, problems: list[Problem]) -> JsonValue:
    """A number or an array of numpy, a series of pandas, or anything to go through."""
    if type(value).__name__ in MOMENTS:  # as a number it would lose what it counts
        return _no(at, value, NUMBER, problems) if str(value) == "NaT" else str(value)
    if isinstance(value, _Scalar) and value.shape == ():
        return _value(value.item(), at, problems)
    if not isinstance(value, Iterable):
        return _no(at, value, DATA, problems)
    return [_value(item, (*at, number), problems) for number, item in enumerate(value)]


def _text(value: str, at: Steps, problems: list[Problem]) -> JsonValue:
    try:
        value.encode()
    except UnicodeEncodeError:
        return _no(at, value, TEXT, problems)
    return str(value)


def _no(at: Steps, value: object, allowed: str, problems: list[Problem]) -> None:
    problems.append(_refused(at, value, allowed))


def _refused(at: Steps, value: object, allowed: str) -> Problem:
    return Problem(path=path_of("", at), found=format_value(value), allowed=allowed)


def _settle(problems: list[Problem], heading: str) -> None:
    if not problems:
        return
    lines = "\n".join(f"  {problem}" for problem in problems[:MOST_TOLD])
    if len(problems) > MOST_TOLD:
        lines += f"\n  and {len(problems) - MOST_TOLD} more"
    raise InvalidInput(
        f"{heading} cannot be sent as JSON:\n{lines}\n",
        cure="Nothing was started; correct them all.",
        problems=((problem.path, problem.words) for problem in problems),
    )
