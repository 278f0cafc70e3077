"""The repair model's question, and what of its answer is taken."""

import json

import pytest
from drafts import COUNT, TEXT_SCHEMA, draft
from inline_snapshot import snapshot

from perdure.domain.generated_tools.draft import ToolDraft
from perdure.domain.generated_tools.pipeline import read_repair, repair_question
from perdure.domain.generated_tools.rejections import refused
from perdure.domain.llm.structured_replies import BadReply

FAILURE = refused("smoke", 422, "smoke", "the example gave 3 instead of 2")


def test_the_question_shows_the_check_and_the_tool_as_data() -> None:
    example = {"arguments": {"text": "a b"}, "result": {"words": 2}}
    assert repair_question(draft(examples=[example]), FAILURE) == snapshot('''\
The tool text.count did not pass the check “smoke”:
the example gave 3 instead of 2
It may import base64, bisect, collections, copy, csv, dataclasses, datetime, decimal,
functools, hashlib, itertools, json, math, re, typing, unicodedata.

<data name="code">
def handler(*, text: str) -> dict:
    """Count the words of a text."""
    return {"words": len(text.split())}
</data>
<data name="schema">
{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
</data>
<data name="examples">
[{"arguments": {"text": "a b"}, "result": {"words": 2}}]
</data>\
''')


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps({"code": "X = 1", "schema": json.dumps(TEXT_SCHEMA)}),
        json.dumps({"code": "X = 1\n", "schema": TEXT_SCHEMA, "name": "other.name"}),
        "Here it is:\n```json\n" + json.dumps({"code": "X = 1", "schema": ""}) + "\n```",
        json.dumps({"code": "X = 1"}),
    ],
)
def test_a_repair_keeps_name_and_examples(reply: str) -> None:
    broken = draft(examples=[{"arguments": {}}])
    read = read_repair(reply, broken)
    assert isinstance(read, ToolDraft)
    assert (read.name, read.code) == (broken.name, "X = 1\n")
    assert (read.parameters, read.examples) == (broken.parameters, broken.examples)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I cannot repair this.",
        json.dumps({"code": "X = 1", "schema": '{"description": "\\ud800"}'}),
        "{",
        "{}",
        "[]",
        json.dumps({"code": ""}),
        json.dumps({"code": 3}),
        json.dumps({"code": COUNT, "schema": "no JSON"}),
        json.dumps({"code": COUNT, "schema": "[1]"}),
        json.dumps({"code": COUNT, "schema": 3}),
        '{"a":' * 5_000,
    ],
)
def test_what_is_no_repair_says_so(reply: str) -> None:
    assert isinstance(read_repair(reply, draft()), BadReply)
