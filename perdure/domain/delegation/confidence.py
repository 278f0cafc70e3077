"""How sure a worker is of its result: as it says, or as its result shows."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import JsonValue

from perdure.domain.delegation.placeholders import placeholders
from perdure.domain.delegation.results import WorkerReport
from perdure.domain.evaluation.trajectory import is_score, rounded
from perdure.domain.foundation.problems import format_value

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
_NUMBER = re.compile(
    r"([-+]?\d{1,9}(?:[.,]\d{0,9})?|[-+]?\.\d{1,9})\s*(?:(%)|(?:/|out of\b|of\b)\s*(\d{1,9}))?"
)
_ABOUT = re.compile(r"^(?:[~≈=]|about\b|around\b|approx(?:imately)?\b\.?|ca?\.)\s*", re.IGNORECASE)
# A second number right behind the first would make it a range.
_REMARK = re.compile(
    r"(?:\s*[(\[].*|\s*[;:,.–—-]+(?:\s+[^\s\d].*)?|\s+(?!(?:to|or|and)\b)[^\W\d].*)?\s*", re.DOTALL
)
_WORD = re.compile(
    rf"(?P<word>{'|'.join(sorted(WORDS, key=len, reverse=True))})(?:\s*[(\[,;:.–—].*|\s*)$",
    re.DOTALL,
)
# Further up, a report may speak of another confidence, such as that of a measurement.
LAST_LINES = 4
_OBJECT = re.compile(r"(?:json|python)?\s*\{.*\}", re.DOTALL)
_MEMBER = re.compile(
    r"[{,\s](?P<quote>['\"]?)confidence(?P=quote)\s*[:=]\s*['\"]?(?P<value>[^,}'\"\n]+)",
    re.IGNORECASE,
)
_BLANKS = re.compile(r"[ \t]+")
# Repeats are bounded: each sign of a row of bars or brackets may be where a label begins.
_LABEL = re.compile(
    r"""
    (?:^|(?<=[.;!?(\[|])) [\s*_\#>|<(\[-]{0,40}+
    (?:(?:my|own|overall|final|total|self[ -]reported)\s{1,4}+){0,6}+
    confidence (?:[ _-](?:score|level|rating|value))?
    (?:[ ]in[ ](?:this|the|my)[ ]\w+)? (?:[ ]\([^)\n]{0,200}\))? [*_`]*
    (?:[ \t]*[:=|>–—]|[ \t]*\n|(?<=my[ ]confidence)[ ]is\b)
    [\s*_`:"']* (?P<value>[^\n<|]+)
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)


class Sureness(NamedTuple):
    """A stated confidence: `value` is None for none, `problem` says why it is unreadable."""

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
        problem=f"confidence: found {format_value(given)}; allowed: a number from 0 to 1."
    )


def _number(given: JsonValue) -> float | None:
    match given:
        # Before the numbers: True is an int, and no confidence of 1.
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
    # From the text as given: `word` has lost its minus signs.
    bare = _ABOUT.sub("", given.strip())
    found = _NUMBER.match(bare)
    if found is None:
        # A known word, followed by a remark in brackets or behind a comma.
        known = _WORD.match(word)
        return None if known is None else WORDS[known["word"]]
    if not _REMARK.fullmatch(bare[found.end() :]):
        return None
    whole = 100.0 if found[2] else float(found[3] or 1)
    # “7/0” says nothing, and must not end the step that reads it.
    return float(found[1].replace(",", ".")) / whole if whole else None


def _is_read(given: str) -> bool:
    return read_sureness(given.strip()).value is not None


def labelled_sureness(text: str) -> JsonValue:
    """The confidence that stands by its name at the end of prose, as written; None for none.

    A reply that looks like an object and is none has it anywhere. What nobody can read counts
    there; in prose it is another sentence.
    """
    bare = text.strip().strip("`").strip()
    if _OBJECT.fullmatch(bare):
        members = [*_MEMBER.finditer(bare)]
        # A name without quotes may be one of a program, whose value is no confidence.
        written = [
            one["value"].strip() for one in members if one["quote"] or _is_read(one["value"])
        ]
        return written[-1] if written else None
    lines = [line for line in text.splitlines() if line.strip(" \t`")][-LAST_LINES:]
    # Cells of tables are padded with any number of blanks.
    last = _BLANKS.sub(" ", "\n".join(lines))
    said = [match["value"] for match in _LABEL.finditer(last)]
    values = [read_sureness(one.strip(" \t*_`|.)]\"'")).value for one in said]
    return next((value for value in reversed(values) if value is not None), None)


BASE = 0.1
FROM_TOOLS = 0.6
PER_PLACEHOLDER = 0.05
MOST_FOR_PLACEHOLDERS = 0.3


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tool calls of a worker, and how many of them went well."""

    calls: int = 0
    successes: int = 0


def worker_confidence(given: float | None, tools: ToolUse, text: str) -> float:
    """The worker's own confidence, or one derived from its tool calls and placeholders."""
    if given is not None:
        return rounded(given)
    share = tools.successes / tools.calls if tools.calls else 0.0
    worked = BASE + FROM_TOOLS * share
    loss = min(MOST_FOR_PLACEHOLDERS, PER_PLACEHOLDER * len(placeholders(text)))
    return rounded(max(0.0, worked - loss))


def iteration_confidence(reports: Iterable[WorkerReport]) -> float | None:
    """The mean over the workers that have a confidence; None when none has."""
    return _mean(report.confidence for report in reports)


def mean_rating(reports: Iterable[WorkerReport]) -> float | None:
    """The same, with the reviewer's score in place of the worker's own where there is one."""
    return _mean(report.rating for report in reports)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return rounded(sum(known) / len(known)) if known else None
