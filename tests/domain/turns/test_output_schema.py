"""An answer read as a value: what may stand around it, and what is no value."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from perdure.domain.llm.structured_replies import BadReply
from perdure.domain.turns.output_schema import Given, given_in, in_words, schema_prompt

OBJECT = {"type": "object"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param('{"a": 1}', {"a": 1}, id="alone"),
        pytest.param("[1, 2]", [1, 2], id="a list"),
        pytest.param(" 42\n", 42, id="a number"),
        pytest.param('Here it is:\n```json\n{"a": 1}\n```\nDone.', {"a": 1}, id="in a fence"),
        pytest.param("```\n[1, 2]\n```", [1, 2], id="a list in a fence"),
        pytest.param('It is {"a": {"b": 2}}, I think.', {"a": {"b": 2}}, id="between words"),
        pytest.param('{"a": 1}\nAgain: {"a": 1}', {"a": 1}, id="said twice"),
    ],
)
def test_a_value_may_stand_among_words(text: str, value: object) -> None:
    assert given_in(text, OBJECT) == Given(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("about forty", "no JSON", id="words"),
        pytest.param("", "no JSON", id="nothing"),
        pytest.param('{"a": 1} or {"a": 2}', "2 JSON values that differ", id="two"),
        pytest.param('```\n{"a": 1}\n```\n```\n{"a": 2}\n```', "differ", id="two fences"),
        pytest.param('{"a": 1, "a": 2}', "given twice", id="a name twice"),
        pytest.param('so: {"a": 1, "a": 2}', "given twice", id="a name twice among words"),
        pytest.param('{"a": 1, "b": {"c": 2', "cut off", id="cut off"),
        pytest.param('{"a": NaN}', "does not know", id="no number"),
        pytest.param("[" * 70 + "]" * 70, "too deeply", id="too deep"),
    ],
)
def test_what_is_no_value_says_why(text: str, why: str) -> None:
    found = given_in(text, OBJECT)
    assert isinstance(found, BadReply)
    assert why in found.problems[0]


def test_plain_words_are_a_value_where_a_text_is_wanted() -> None:
    assert given_in(" plain words ", {"type": "string"}) == Given("plain words")
    assert given_in('"said so"', {"type": "string"}) == Given("said so")


LIST = {"type": "array"}


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        pytest.param('Risks:\n[{"a": 1}, {"a": 2}]\nDone.', LIST, [{"a": 1}, {"a": 2}], id="two"),
        pytest.param('Risks: [{"a": 1}]', LIST, [{"a": 1}], id="one"),
        pytest.param("[1, 2]\nDone.", LIST, [1, 2], id="numbers"),
        pytest.param("None: [].", LIST, [], id="empty"),
        pytest.param("[see](x) [[1], [2]]", LIST, [[1], [2]], id="a link and lists in a list"),
        pytest.param('So: [{"a": 1}]', {"type": ["object", "array"]}, [{"a": 1}], id="either"),
        pytest.param('So: [{"a": 1}]', {}, [{"a": 1}], id="anything"),
        pytest.param('By [1]: {"a": [1]}', {}, {"a": [1]}, id="a quotation beside an object"),
        pytest.param('So: [{"a": 1}]', OBJECT, {"a": 1}, id="an object is wanted"),
    ],
)
def test_a_list_between_words_is_read_where_it_may_be_meant(
    text: str, schema: dict[str, JsonValue], value: JsonValue
) -> None:
    assert given_in(text, schema) == Given(value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("[1] or [2]", "2 JSON values that differ", id="two"),
        pytest.param("so: [NaN]", "does not know", id="no number"),
        pytest.param('so: [{"a": 1, "a": 2}]', "given twice", id="a name twice"),
        pytest.param('so: [1] and {"a": 1, "a": 2}', "given twice", id="a refused object beside"),
    ],
)
def test_a_list_that_is_no_value_says_why(text: str, why: str) -> None:
    found = given_in(text, LIST)
    assert isinstance(found, BadReply)
    assert why in found.problems[0]


@given(VALUES)
def test_what_is_kept_is_the_same_value(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    found = given_in(text, OBJECT)
    assert isinstance(found, Given)
    assert given_in(found.text, OBJECT) == found
    assert json.loads(found.text) == value


def test_problems_are_few_and_short() -> None:
    told = in_words(["x" * 1_000] * 9)
    assert len(told) == 5
    assert max(map(len, told)) == 300


def test_the_schema_is_told_word_for_word() -> None:
    assert schema_prompt({"const": "é"}).endswith('{"const": "é"}')
