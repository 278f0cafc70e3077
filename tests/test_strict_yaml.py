"""What people write as YAML: a value that contradicts its tag is refused with its place."""

import json

import pytest
from pydantic import JsonValue

from perdure.domain.foundation.errors import InvalidInput
from perdure.strict_yaml import parse


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("a: !!bool maybe", "line 1, column 4: this is no truth value"),
        ("a: !!int", "line 1, column 4: this is no number"),
        ("a: !!float", "line 1, column 4: this is no number"),
        ("a: [b, !!timestamp soon]", "line 1, column 8: this is no date"),
        ("!!timestamp soon: 1", "line 1, column 1: this is no date"),
        ("a: " + "9" * 5_000, "line 1, column 4: this is no number"),
        (f"a: {'1:' * 400}1.0", "line 1, column 4: this is no number"),
        ('a: "\\UFFFFFFFF"', "cannot be read as YAML or JSON"),
    ],
    ids=["switch", "no number", "no fraction", "date", "key", "digits", "of base 60", "character"],
)
def test_a_value_that_cannot_be_read_is_refused(written: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        parse(written, named="The file x.yaml")
    assert str(caught.value).startswith("The file x.yaml cannot be read")


@pytest.mark.parametrize(
    "value",
    [{"goal": "😀"}, {"😀": {"a": ["x\u0085y\x7f", 1]}}, {"a": 1e-05, "b": [-1e300]}, []],
    ids=["beyond U+FFFF", "signs", "exponents", "nothing"],
)
@pytest.mark.parametrize("indent", [None, 2, "\t"])
@pytest.mark.parametrize("ascii_alone", [True, False])
def test_json_of_any_program_is_read(
    value: JsonValue, indent: int | str | None, ascii_alone: bool
) -> None:
    written = json.dumps(value, indent=indent, ensure_ascii=ascii_alone)
    assert parse(written, named="The file x.json") == value


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ('{"a": 1, "a": 2}', "line 1, column 10: the key 'a' is given twice"),
        ('{"a": "\\ud83d"}', "half a character"),
        ('{"a": [1, }', "line 1, column 11"),
        ("[" * 3_000, "nested too deep"),
    ],
    ids=["repeated", "half a sign", "no JSON", "deep"],
)
def test_what_is_no_sound_json_is_refused(written: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        parse(written, named="The file x.json")


def test_two_escapes_of_yaml_are_one_sign_too() -> None:
    assert parse('"\\ud83d\\ude00": "\\ud83d\\ude00!"', named="x") == {"😀": "😀!"}
    assert parse("[1e999, NaN]", named="x") == ["1e999", "NaN"]
