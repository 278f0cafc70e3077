"""Placeholders: replaced in one pass, everywhere, and never expanded again."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from perdure.domain.roles.parse_definition import filled, filled_text, unknown_placeholders

VALUES = {"a": "one", "b": "{{a}}", "c": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{a}} and {{ a }}", "one and one"),
        ("{{b}}", "{{a}}"),
        ("x{{c}}y", "xy"),
        (r"\{{a}}", "{{a}}"),
        ("{{unknown}}", "{{unknown}}"),
        ("{a} {{}} { {a} }", "{a} {{}} { {a} }"),
        ("{{{a}}}", "{one}"),
        ("{{a\n}}", "{{a\n}}"),
    ],
    ids=["twice", "data", "empty", "escaped", "unknown", "none", "three braces", "two lines"],
)
def test_texts_are_filled(text: str, expected: str) -> None:
    assert filled_text(text, VALUES) == expected


def test_all_texts_of_a_value_are_filled() -> None:
    value: JsonValue = {"x": ["{{a}}", {"y": "{{a}}"}], "n": 3, "none": None, "{{a}}": True}
    assert filled(value, VALUES) == {
        "x": ["one", {"y": "one"}],
        "n": 3,
        "none": None,
        "{{a}}": True,
    }


def test_unknown_placeholders_are_named_with_their_place() -> None:
    value: JsonValue = {"roles": [{"prompt": "{{aa}} {{aa}} {{b}}"}], "x": r"\{{q}}"}
    (found,) = unknown_placeholders(value, ("a", "b"), root="loop")
    assert (found.path, found.nearest) == ("loop.roles[0].prompt", "a")


@pytest.mark.parametrize("blanks", ["{{" + " " * 100_000, "{{" + "\t " * 50_000 + "a"])
def test_a_long_row_of_blanks_is_read_at_once(blanks: str) -> None:
    began = time.process_time()
    assert filled_text(blanks, VALUES) == blanks
    assert unknown_placeholders(blanks, ("a",), root="goal") == ()
    assert time.process_time() - began < 2


@given(value=st.text(), around=st.text(alphabet="ab {}"))
def test_values_are_data(value: str, around: str) -> None:
    assert filled_text(f"<{{{{x}}}}>{around}", {"x": value}).startswith(f"<{value}>")
