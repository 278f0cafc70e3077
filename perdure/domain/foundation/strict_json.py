"""JSON that a model wrote, read strictly: nothing in it may be read in two ways.

Readers differ in which of two members of one name counts. What one part of a reply says must not be
said otherwise behind its back: a verdict with two scores is no verdict, and a call with two paths
names no file. Readers differ as well in what they make of `NaN`, `Infinity` or a number beyond all
measure, which Python takes and most stores turn into nothing.
"""

import json
import math
from collections.abc import Sequence
from typing import NoReturn

from pydantic import JsonValue

SHOWN_CHARACTERS = 80
SHOWN_DIGITS = 20
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
        ValueError: the text is none; `RefusedJson` where an object in it repeats a name, or a
            number is none.
    """
    return json.loads(
        text,
        object_pairs_hook=once_each,
        parse_constant=no_constant,
        parse_float=finite,
        parse_int=whole,
    )


def strict_decoder() -> json.JSONDecoder:
    """A decoder for JSON that stands within other text; it raises `ValueError` as `read_json`."""
    return json.JSONDecoder(
        object_pairs_hook=once_each,
        parse_constant=no_constant,
        parse_float=finite,
        parse_int=whole,
    )
