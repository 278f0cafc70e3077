"""Keys of a JSON object as parts: the text of every other value stays as it was written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from perdure.domain.outputs.parts import json_keys

DRAFT = '{\n  "name" : "Ann\\u00e9",\n  "skills": ["a",  "b"],\n  "age": 3.10\n}'


@pytest.mark.parametrize(
    ("text", "tidy"),
    [
        pytest.param(DRAFT, DRAFT, id="an object"),
        pytest.param(f"Here it is:\n```json\n{DRAFT}\n```\nDone.", DRAFT, id="in prose and fence"),
        pytest.param('{x} {"a": 1}', '{"a": 1}', id="after other braces"),
        pytest.param('{"a": 1, "b": [2', '{"a": 1\n}', id="broken off"),
        pytest.param('{"a": 1 "b": 2}', '{"a": 1\n}', id="a comma is missing"),
        pytest.param(" [1, {}] ", "[1, {}]", id="a list stays"),
        pytest.param("no JSON", "no JSON", id="prose stays"),
        pytest.param('{"a": NaN}', '{"a": NaN}', id="no number"),
        pytest.param("", "", id="nothing"),
        pytest.param("{ }", "{ }", id="no members"),
    ],
)
def test_tidy(text: str, tidy: str) -> None:
    assert json_keys.tidy(text) == tidy
    assert json_keys.tidy(tidy) == tidy


@pytest.mark.parametrize(
    ("part", "as_json", "text"),
    [
        ("name", False, "Anné"),
        ("name", True, '"Ann\\u00e9"'),
        ("skills", False, '["a",  "b"]'),
        ("age", False, "3.10"),
        ("none", False, ""),
    ],
)
def test_part_text(part: str, as_json: bool, text: str) -> None:
    assert json_keys.part_text(DRAFT, part, as_json=as_json) == text


def test_of_doubles_the_last_counts() -> None:
    assert json_keys.part_text('{"a": 1, "a": 2}', "a", as_json=False) == "2"
    assert json_keys.replaced('{"a": 1, "a": 2}', {"a": "3"}, ("a",)) == '{"a": 1, "a": 3}'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param('["x"]', '["x"]', id="bare"),
        pytest.param("```json\n[1]\n```", "[1]", id="in a fence"),
        pytest.param('{"skills": [1]}', "[1]", id="with its key"),
        pytest.param('Sure: {"skills": [1], "x": 2}', "[1]", id="in a whole object"),
        pytest.param('"skills": [1],', "[1]", id="without braces"),
        pytest.param('{"x": 1}', '{"x": 1}', id="an object as value"),
        pytest.param('[{"skills": 1}]', '[{"skills": 1}]', id="a list that holds the key"),
        pytest.param('""', '""', id="an empty text"),
        pytest.param("[1, 2", "", id="broken off"),
        pytest.param("just words", "", id="no JSON"),
        pytest.param('{"skills": [1', "", id="broken off with its key"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_reply(text: str, value: str) -> None:
    assert json_keys.reply(text, "skills") == value


@pytest.mark.parametrize(
    ("text", "replies", "changed"),
    [
        pytest.param(DRAFT, {"age": "4"}, DRAFT.replace("3.10", "4"), id="in its place"),
        pytest.param('{"a": 1}', {"c": "3", "b": "2"}, '{"a": 1, "b": 2, "c": 3}', id="in order"),
        pytest.param('{\n "a": 1\n}', {"b": "2"}, '{\n "a": 1,\n "b": 2\n}', id="as the others"),
        pytest.param("{}", {"b": "2"}, '{"b": 2}', id="into nothing"),
        pytest.param("no JSON", {"a": "1"}, '{"a": 1}', id="in place of no JSON"),
    ],
)
def test_replaced(text: str, replies: dict[str, str], changed: str) -> None:
    assert json_keys.replaced(text, replies, ("a", "b", "c", "age")) == changed


VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]) | st.text(max_size=3), VALUES)


@given(
    value=OBJECTS, indent=st.sampled_from([None, 0, 2]), changes=OBJECTS, ascii_only=st.booleans()
)
def test_other_values_stay_byte_for_byte(
    value: dict[str, JsonValue], indent: int | None, changes: dict[str, JsonValue], ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    replies = {key: json.dumps(item) for key, item in changes.items()}
    changed = json_keys.replaced(text, replies, tuple(replies))
    assert json.loads(changed) == {**value, **changes}
    before, after = json_keys.read(text), json_keys.read(changed)
    assert before is not None
    assert after is not None
    for key in value.keys() - changes.keys():
        assert after.raw(key) == before.raw(key)
    assert json_keys.replaced(text, {}, ()) == text


@given(st.text('{}[]",:\\a1 \n', max_size=30))
def test_any_text_can_be_read(text: str) -> None:
    tidy = json_keys.tidy(text)
    assert json_keys.tidy(tidy) == tidy
    answer = json_keys.reply(text, "a")
    if answer:
        json.loads(json_keys.replaced("{}", {"a": answer}, ("a",)))
