"""How sure somebody says that they are: a number from 0 to 1, a share of a hundred, or a word."""

import re
from typing import NamedTuple

from pydantic import JsonValue

from perdure.domain.evaluation.trajectory import is_score
from perdure.domain.foundation.problems import shown

# Below the least confidence that closes a subtask, between, and clearly above it.
WORDS = {
    "none": 0.0,
    "zero": 0.0,
    "very low": 0.1,
    "low": 0.2,
    "medium": 0.5,
    "moderate": 0.5,
    "high": 0.8,
    "very high": 0.9,
    "certain": 1.0,
    "full": 1.0,
}
_NUMBER = re.compile(r"([-+]?\d{1,9}(?:\.\d{0,9})?|[-+]?\.\d{1,9})\s*(?:(%)|/\s*(\d{1,9}))?")


class Sureness(NamedTuple):
    """`value` is None where nothing was said, or with a `problem` where nobody can read it."""

    value: float | None = None
    problem: str = ""


def read_sureness(given: JsonValue) -> Sureness:
    """A confidence in the spellings that models use; what cannot be read is never dropped."""
    if given is None or given == "":
        return Sureness()
    value = _number(given)
    if value is not None and is_score(value):
        return Sureness(value)
    return Sureness(
        problem=f"confidence: found {shown(given)}; allowed: a number from 0 to 1. "
        "It counts as not stated."
    )


def _number(given: JsonValue) -> float | None:
    match given:
        case bool():
            return None
        case int() | float():
            return float(given)
        case str():
            return _written(given.strip().casefold().replace("_", " ").replace("-", " "), given)
        case _:
            return None


def _written(word: str, given: str) -> float | None:
    if word in WORDS:
        return WORDS[word]
    found = _NUMBER.fullmatch(given.strip())
    if found is None:
        return None
    whole = 100.0 if found[2] else float(found[3] or 1)
    return float(found[1]) / whole if whole else None
