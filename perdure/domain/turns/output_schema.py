"""The answer as a value of the schema that a task names: told to the model, and read back.

The reader is tolerant of what stands around the JSON (words, fences) and guesses nothing inside it.
Whether the value fits is checked where foreign schemas are.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from perdure.domain.foundation.json_extraction import (
    FoundList,
    RefusedJson,
    all_lists,
    all_objects,
    read_json,
    to_storable,
)
from perdure.domain.llm.structured_replies import BadReply, flaw

OutputSchema = dict[str, JsonValue]

NOT_LOOKED_AT = ("the answer was not given as JSON",)
PROBLEMS_TOLD = 5
PROBLEM_CHARACTERS = 300
_FENCE = re.compile(r"```[a-zA-Z0-9_-]*[ \t]*\n(?P<body>.*?)```", re.DOTALL)
_TOLD = "Your final answer is one JSON value of this schema, without any words around it:\n{schema}"
_AGAIN = (
    "Your answer is not what was asked for: {problems}. "
    "Give it again as one JSON value of the schema, without any words around it."
)


@dataclass(frozen=True, slots=True)
class Given:
    """A value as a model gave it."""

    value: JsonValue

    @property
    def text(self) -> str:
        """It as JSON that anybody can read."""
        return json.dumps(self.value, ensure_ascii=False, indent=2)


def schema_prompt(schema: OutputSchema) -> str:
    """What a model is told of the schema from the start."""
    return _TOLD.format(schema=json.dumps(schema, ensure_ascii=False))


def misfit_prompt(problems: Sequence[str]) -> str:
    """What a model is told whose answer does not fit."""
    return _AGAIN.format(problems="; ".join(problems))


def in_words(problems: Sequence[str]) -> tuple[str, ...]:
    """The problems as they are told and kept: few, and short."""
    return tuple(problem[:PROBLEM_CHARACTERS] for problem in problems[:PROBLEMS_TOLD])


def given_in(text: str, schema: Mapping[str, JsonValue]) -> Given | BadReply:
    """The one JSON value of an answer: the whole of it, in a fence, or between words."""
    whole = _read(text)
    if whole is not None:
        return whole
    fenced = [_read(match.group("body")) for match in _FENCE.finditer(text)]
    values = [found for found in fenced if found is not None]
    if values:
        return _only(values)
    between = _between_words(text, schema)
    if between:
        return _only(between)
    if schema.get("type") == "string" and text.strip():
        return Given(text.strip())
    return BadReply(("the reply holds no JSON",))


def _between_words(text: str, schema: Mapping[str, JsonValue]) -> list[Given | BadReply]:
    """The values among words: objects, and the lists that the schema may mean."""
    lists = [found for found in all_lists(text) if _may_be_meant(found, schema)]
    objects = [
        found
        for found in all_objects(text)
        if (found.fields or found.refused)
        and not any(outer.start < found.start < outer.end for outer in lists)
    ]
    flaws = [problem for found in objects if (problem := flaw(found))]
    flaws += [f"The reply cannot be read: {found.refused}." for found in lists if found.refused]
    if flaws:
        return [BadReply((flaws[0],))]
    return [
        *(Given(list(found.items)) for found in lists),
        *(Given(dict(found.fields)) for found in objects),
    ]


def _may_be_meant(found: FoundList, schema: Mapping[str, JsonValue]) -> bool:
    # Words hold brackets of their own, such as `[1]` at a quotation: unless the schema asks for a
    # list, only one of objects is taken for an answer.
    kinds = schema.get("type")
    if kinds is None:
        return any(isinstance(item, dict) for item in found.items)
    return kinds == "array" or (isinstance(kinds, list) and "array" in kinds)


def _only(found: Sequence[Given | BadReply]) -> Given | BadReply:
    first = found[0]
    if any(one != first for one in found):
        return BadReply((f"the reply holds {len(found)} JSON values that differ; give one",))
    return first


def _read(text: str) -> Given | BadReply | None:
    """A text that is JSON as a whole; None for one that is not."""
    try:
        value = read_json(text.strip())
    except RefusedJson as error:
        return BadReply((str(error),))
    except ValueError:
        return None
    # What the store would not give back as it was must not count as a fitting answer.
    if to_storable(value) != value:
        return BadReply(("the value is nested too deeply, or holds half a character",))
    return Given(value)
