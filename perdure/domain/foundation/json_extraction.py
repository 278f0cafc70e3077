"""Finds and reads JSON in the text of a model: alone, in fences, between words, or cut off.

Readers differ in which of two members of one name counts. What one part of a reply says must not be
said otherwise behind its back: a verdict with two scores is no verdict, and a call with two paths
names no file. Readers differ as well in what they make of `NaN`, `Infinity` or a number beyond all
measure, which Python takes and most stores turn into nothing.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NoReturn

from pydantic import JsonValue

SHOWN_CHARACTERS = 80
SHOWN_DIGITS = 20
MOST_LEVELS = 128
MOST_DIGITS = 308  # of a whole number that is no larger than what a float can hold


class RefusedJson(ValueError):
    """JSON in its form, and yet nothing of it may be taken."""


class RepeatedName(RefusedJson):
    """An object gives one of its names twice."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the name {name[:SHOWN_CHARACTERS]!r} is given twice in one object")


class UnknownNumber(RefusedJson):
    """A number that JSON does not know, or that is too large for readers."""

    def __init__(self, written: str) -> None:
        shown = written if len(written) <= SHOWN_DIGITS else f"{written[:SHOWN_DIGITS]}…"
        super().__init__(
            f"{shown} is a number that JSON does not know or that is too large; "
            "give a finite number, or null"
        )


class NestedTooDeep(RefusedJson):
    """Lists and objects within each other beyond what can be checked and stored."""

    def __init__(self) -> None:
        super().__init__(f"it is nested deeper than {MOST_LEVELS} levels")


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


def no_constant(written: str) -> NoReturn:
    """Refuse `NaN` and `Infinity`, for readers that take a hook; raises `UnknownNumber`."""
    raise UnknownNumber(written)


def finite(written: str) -> float:
    """A number with a point or an exponent.

    Raises:
        UnknownNumber: it is too large.
    """
    number = float(written)
    if not math.isfinite(number):
        raise UnknownNumber(written)
    return number


def whole(written: str) -> int:
    """A whole number.

    Raises:
        UnknownNumber: it is too large.
    """
    if len(written.removeprefix("-")) > MOST_DIGITS:
        raise UnknownNumber(written)
    return int(written)


def read_json(text: str | bytes) -> JsonValue:
    """One JSON value.

    Raises:
        ValueError: the text is none; `RefusedJson` where an object in it repeats a name, a number
            is none, or it is nested too deeply.
    """
    try:
        value: JsonValue = json.loads(
            text,
            object_pairs_hook=once_each,
            parse_constant=no_constant,
            parse_float=finite,
            parse_int=whole,
        )
    except RecursionError:
        raise NestedTooDeep from None
    # How deep Python itself reads depends on its version; what follows would fail in its own ways.
    if _nested_too_deep(value):
        raise NestedTooDeep
    return value


def _nested_too_deep(value: JsonValue) -> bool:
    # By levels: a recursive look would fail on the very values that it looks for.
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        inner = (
            one.values() if isinstance(one, dict) else one
            for one in level
            if isinstance(one, dict | list)
        )
        level = [item for items in inner for item in items]
        if not level:
            return False
    return True


def strict_decoder() -> json.JSONDecoder:
    """A decoder for JSON that stands within other text; it raises `ValueError` as `read_json`."""
    return json.JSONDecoder(
        object_pairs_hook=once_each, parse_constant=no_constant, parse_float=finite, parse_int=whole
    )


# Bounds of the work on one text: a model may write anything, and its worker has other steps.
MOST_CHARACTERS = 400_000
MOST_STARTS = 40
MOST_CUTS = 200
DEEPEST = 60
LEFT_OUT = "[… nested too deeply …]"

_FENCE = re.compile(r"```[a-zA-Z0-9_-]*[ \t]*\n(?P<body>.*?)```", re.DOTALL)
_BRACKET = re.compile(r"[\[{]")
_CLOSING = {"{": "}", "[": "]"}
# A whole text or the beginning of one, so that signs in it do not count; or a sign. A long reply
# must not take seconds here, in which its worker sends no heartbeats.
_MARKS = re.compile(r'"(?:[^"\\]+|\\.)*"?|[\[\]{},]', re.DOTALL)
_DECODER = strict_decoder()
# As floats, because Python's `int` refuses a text of more than 4,300 digits.
_LENIENT = json.JSONDecoder(parse_int=float)  # says where an object ends that is not taken


@dataclass(frozen=True, slots=True)
class Found:
    """A JSON object in a text, with its position.

    `cut`: it is not finished, and its last pieces are missing. `refused` says what may not be in
    JSON, such as a name given twice: then nothing in it counts, and it has no fields.
    """

    fields: dict[str, JsonValue]
    cut: bool = False
    refused: str = ""
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class FoundList:
    """A JSON list in a text, with its position; `refused` as of an object."""

    items: tuple[JsonValue, ...]
    refused: str = ""
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


def objects_in(text: str) -> tuple[Found, ...]:
    """The JSON objects of a text in the order in which they should be looked at.

    Those in fences come first. An object that does not end hides what lies inside it; one that
    is refused is left out.
    """
    return tuple(found for found in all_objects(text) if not found.refused)


def all_objects(text: str) -> tuple[Found, ...]:
    """The same with those that are refused."""
    text = text[:MOST_CHARACTERS]
    fenced = {
        found.start: found
        for match in islice(_FENCE.finditer(text), MOST_STARTS)
        # Up to the end of the fence: an object that breaks off in it does not read on behind it.
        for found in _objects(text[: match.end("body")], match.start("body"))
    }
    others = (found for found in _objects(text) if found.start not in fenced)
    return (*fenced.values(), *others)


def all_lists(text: str) -> tuple[FoundList, ...]:
    """The JSON lists of a text that lie in no other list or object, with those that are refused."""
    text = text[:MOST_CHARACTERS]
    found: list[FoundList] = []
    at = _BRACKET.search(text)
    for _ in range(MOST_STARTS):
        if at is None:
            break
        start = at.start()
        try:
            value, end = _DECODER.raw_decode(text, start)
        except RefusedJson as error:
            value, end = [], _end_of(text, start)
            if text[start] == "[":
                found.append(FoundList((), refused=str(error), start=start, end=end))
        except (ValueError, RecursionError):
            value, end = {}, start + 1
        else:
            if isinstance(value, list):
                items = tuple(to_storable(one) for one in value)
                found.append(FoundList(items, start=start, end=end))
        at = _BRACKET.search(text, end)
    return tuple(found)


def object_at(text: str, start: int) -> Found | None:
    """The object that begins at a brace, if it is whole and can be read; else None."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return Found(_fields(value), start=start, end=end)


def value_of(text: str) -> JsonValue:
    """The JSON that a text is, or the text itself."""
    stripped = text.strip()
    if stripped[:1] not in {"{", "["}:
        return text
    try:
        value = read_json(stripped)
    except ValueError:
        return text
    return to_storable(value)


def to_storable(value: JsonValue, depth: int = DEEPEST) -> JsonValue:
    """A value as it can be kept: valid UTF-8, and nothing below `depth` levels of nesting.

    An escape in JSON can make half of a character, and models nest as deep as they like: neither
    can be written down again.
    """
    match value:
        case str():
            return to_encodable(value)
        case list():
            return [to_storable(one, depth - 1) for one in value] if depth else LEFT_OUT
        case dict():
            if not depth:
                return LEFT_OUT
            return {to_encodable(name): to_storable(one, depth - 1) for name, one in value.items()}
        case _:
            return value


def as_text(value: JsonValue) -> str:
    """Return text unchanged and any other value as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _objects(text: str, begin: int = 0) -> tuple[Found, ...]:
    found: list[Found] = []
    start, tried = text.find("{", begin), 0
    while start >= 0 and tried < MOST_STARTS:
        tried += 1
        try:
            one, end = _object_at(text, start)
        except RefusedJson as error:
            end = _end_of(text, start)
            one = Found({}, refused=str(error), start=start, end=end)
        if one is not None:
            found.append(one)
        start = text.find("{", end)
    return tuple(found)


def _object_at(text: str, start: int) -> tuple[Found | None, int]:
    """What begins at a brace, and where to look on."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    # Before `ValueError`, of which it is one: not even the beginning of such an object is taken.
    except RefusedJson:
        raise
    except (ValueError, RecursionError) as error:
        failed = error.pos if isinstance(error, json.JSONDecodeError) else len(text)
        fields, ends = _unfinished(text, start, failed=failed)
        whole = len(text) if fields and not ends else start + 1
        cut = Found(fields, cut=True, start=start, end=whole) if fields else None
        return cut, whole
    return Found(_fields(value), start=start, end=end), end


def _end_of(text: str, start: int) -> int:
    """Where an object ends that is refused: nothing in it is taken either."""
    try:
        return _LENIENT.raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return len(text)  # cut off as well


def _unfinished(text: str, start: int, *, failed: int) -> tuple[dict[str, JsonValue], bool]:
    """What is whole of an object that cannot be read, and whether its brackets close at all.

    Args:
        text: that holds it.
        start: of its brace.
        failed: where the reading failed.
    """
    places, ends = _places(text, start, failed=failed)
    for end, closers in reversed(places):
        try:
            fields = read_json(f"{text[start:end]}{closers}")
        except RefusedJson:
            raise  # a shorter piece would leave out what nobody may take
        except (ValueError, RecursionError):
            continue
        return _fields(fields) if isinstance(fields, dict) else {}, ends
    return {}, ends


def _fields(given: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {to_encodable(name): to_storable(value) for name, value in given.items()}


def to_encodable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot encode, replaced by question marks."""
    return text.encode("utf-8", "replace").decode()


def with_named_numbers(value: JsonValue) -> JsonValue:
    """The value with NaN and the infinities, which are no JSON, as texts: `NaN`, `-Infinity`.

    As numbers they would be written as null, which says "nothing".
    """
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        case list():
            return [with_named_numbers(one) for one in value]
        case dict():
            return {key: with_named_numbers(one) for key, one in value.items()}
        case _:
            return value


def _places(text: str, start: int, *, failed: int) -> tuple[list[tuple[int, str]], bool]:
    """Where the object may be closed, each with the brackets that close it; whether it ends.

    A place lies before a comma or after a bracket, so that nothing half written is kept: half an
    instruction is another instruction. What goes on behind `failed` fails there again, so of the
    last places those before it are given.
    """
    places: list[tuple[int, int, str]] = []
    stack: list[str] = []
    count = 0
    for mark in _MARKS.finditer(text, start):
        sign = mark[0]
        if sign[0] == '"':
            continue
        if sign in _CLOSING:
            stack.append(_CLOSING[sign])
        elif sign in "}]":
            stack.pop()
        at = mark.start() if sign == "," else mark.end()
        count += 1
        if at <= failed:
            places.append((count, at, "".join(reversed(stack))))
        if not stack or len(stack) > DEEPEST:
            break
    last = [(at, closers) for number, at, closers in places if number > count - MOST_CUTS]
    return last, not stack
