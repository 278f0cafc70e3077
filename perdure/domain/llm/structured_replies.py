"""The one reader of structured replies, for every role.

The model gets a schema if it supports one. The object in its reply may stand in code fences,
between words or in a wrapper, but nothing is guessed. A reply that is cut off, repeats a name or
contradicts itself is a `BadReply`, with sentences for the one time that the model is asked again.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from perdure.domain.foundation.json_extraction import Found, all_objects, object_at
from perdure.domain.foundation.problems import problems_of
from perdure.domain.llm.requests import CUT_SHORT, UNFINISHED

ShapeT = TypeVar("ShapeT", bound=BaseModel)
Fields = dict[str, JsonValue]
MOST_PROBLEMS = 12
# Bounds of the search from the end, for a reply may be full of braces.
_LAST = 3
_REMARKS = re.compile(
    r"(?:strengths|positives|pros|notes?|reasoning|rationale|comments?|summary|thoughts|analysis|"
    r"explanations?|suggestions?|meta|metadata|steps)",
    re.IGNORECASE,
)
_SUMS = re.compile(r"overall|total|average|mean|weighted", re.IGNORECASE)
# A field of such a name says something about the work; others are remarks.
_TELLING = re.compile(
    r"find|issue|defect|block|problem|critical|important|bug|error|severity|resolved|score|fail|"
    r"reject|missing|violation|concern",
    re.IGNORECASE,
)
# Fields that sum a reply up, and the words with which they speak against the work.
_VERDICTS = re.compile(
    r"verdict|pass|accept|approv|status|state|decision|outcome|conclusion|recommend|achiev|\bmet\b|"
    r"_met|done|ready|complete|valid|success|satisf|\bok\b|good|merge|ship",
    re.IGNORECASE,
)
_NO = re.compile(
    r"\W*(?:(?:it|this|the (?:work|draft|text|output|result)|work|draft)\s+)?"
    r"(?:(?:is|was|does|do|did|has|have|should|must|can|be)(?:\s+|(?=n't)))?"
    r"(?:no\b(?!\s+(?:new|more|further|open|issue|problem|blocker|finding|defect|concern|change|"
    r"objection|error))|n't\b|not\b|never\b|fail|reject|den(?:y|ied)|declin|block|bad\b|poor|"
    r"insufficient|incomplete|invalid|revis|rework|redo\b|wrong|unaccept|unmet|partial|false\b|"
    r"needs?\s+(?:work|change|fix|rev|more)|changes?\s+(?:requested|required|needed)|[✗✘❌🛑⛔])",
    re.IGNORECASE,
)
_BRACES = 24
_CUT = "The reply was cut off before its end; make it shorter."
_PAUSED = "The reply paused before its end; give the whole of it at once."


@dataclass(frozen=True, slots=True)
class BadReply:
    """Why a reply is not what was asked for."""

    problems: tuple[str, ...]


def object_schema(properties: Fields, *required: str) -> Fields:
    """The JSON Schema of an object without further fields."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def unfinished_problem(stop_reason: str) -> BadReply | None:
    """Why a reply that stopped so says nothing yet; None for one that came to its end.

    A whole object in it is no answer: what did not come any more may have taken it back.
    """
    if stop_reason in UNFINISHED:
        return BadReply((_CUT if stop_reason in CUT_SHORT else _PAUSED,))
    return None


def read_shape(text: str, shape: type[ShapeT], *names: str) -> ShapeT | BadReply:
    """The reply in its shape, or every problem with it; an object has one of these fields."""
    found = find_reply(text, *names)
    if found is None:
        return BadReply((f"The reply holds no JSON object with {_either(names)}.",))
    return found if isinstance(found, BadReply) else shaped(found.fields, shape)


def shaped(fields: Fields, shape: type[ShapeT]) -> ShapeT | BadReply:
    """An object in a shape, or every problem with it."""
    try:
        return shape.model_validate(fields)
    except ValidationError as error:
        said = tuple(str(problem) for problem in problems_of(error, fields))
        return BadReply(said[:MOST_PROBLEMS])


def find_reply(text: str, *names: str) -> Found | BadReply | None:
    """The one whole object of a text that has one of these fields; None without any.

    One that stands in the text again is the same reply; two that differ are none.
    """
    found = objects_with(text, *names)
    if not found:
        return None
    for one in found:
        if problem := flaw(one):
            return BadReply((problem,))
    if any(one.fields != found[0].fields for one in found):
        how = f"{len(found)} objects with {_either(names)} that say different things"
        return BadReply((f"The reply holds {how}; give one.",))
    return found[0]


def objects_with(text: str, *names: str) -> tuple[Found, ...]:
    """All objects of a text that have one of these fields, in their order, those with flaws too.

    One inside another does not count, but for an object that is wrapped in another one's only field
    of this kind. The end of a long text is looked at as well as its beginning.
    """
    found = {one.start: one for one in _near_the_end(text, names)}
    for one in all_objects(text):
        if one.refused or (named := _named(one, names)) is None:
            if one.refused and any(f'"{name}"' in text[one.start : one.end] for name in names):
                found[one.start] = one
            continue
        found[one.start] = named
    return tuple(_outermost([found[start] for start in sorted(found)]))


def flaw(found: Found) -> str:
    """What is wrong with an object as a whole; empty if nothing is."""
    if found.refused:
        return f"The reply cannot be read: {found.refused}."
    return _CUT if found.cut else ""


def unexpected_fields(fields: Fields, known: Collection[str]) -> list[str]:
    """Names of fields that nobody asked for and that may carry more than a remark.

    Empty ones say nothing, nor does a sum. A text, a number or a switch is a remark unless its name
    says else; a list or an object is one only where its name says so.
    """
    return [
        name
        for name, value in fields.items()
        if name not in known and value not in (None, "", [], {}) and not _is_remark(name, value)
    ]


def denials(fields: Fields, known: Collection[str]) -> list[str]:
    """Fields that nobody asked for and that speak against the work: `approved: false`.

    Beside a good score or an approval they contradict it; beside a bad one they repeat it.
    """
    return [
        name
        for name, value in fields.items()
        if name not in known and _VERDICTS.search(name) and _is_no(value)
    ]


def _is_no(value: JsonValue) -> bool:
    # `is False`, for an empty or absent verdict says nothing.
    return value is False or (isinstance(value, str) and bool(_NO.match(value.replace("_", " "))))


def _is_remark(name: str, value: JsonValue) -> bool:
    if isinstance(value, list | dict):
        return bool(_REMARKS.fullmatch(name))
    return bool(_SUMS.match(name)) or not _TELLING.search(name)


def _named(found: Found, names: Sequence[str]) -> Found | None:
    """The object that has such a field: this one, or the one that it wraps."""
    if any(name in found.fields for name in names):
        return found
    inner = [
        value
        for value in found.fields.values()
        if isinstance(value, dict) and any(name in value for name in names)
    ]
    if len(inner) != 1:
        return None
    return Found(inner[0], cut=found.cut, start=found.start, end=found.end)


def _near_the_end(text: str, names: Sequence[str]) -> Iterator[Found]:
    """Objects around the last mentions of a field, behind a bounded number of braces."""
    for name in names:
        end = len(text)
        for _ in range(_LAST):
            end = text.rfind(f'"{name}"', 0, end)
            if end < 0:
                break
            at = end
            for _ in range(_BRACES):
                at = text.rfind("{", 0, at)
                if at < 0:
                    break
                found = object_at(text, at)
                if found is not None and name in found.fields:
                    yield found


def _outermost(found: Sequence[Found]) -> Iterator[Found]:
    """Without those that lie inside another; what is cut off does not hide a whole one."""
    end = -1
    for one in found:
        if one.start < end:
            continue
        if not one.cut:
            end = one.end
        yield one


def _either(names: Sequence[str]) -> str:
    return " or ".join(names)
