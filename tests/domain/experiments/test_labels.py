"""An output against the right answer."""

import pytest
from pydantic import JsonValue

from perdure.domain.experiments.labels import is_right


@pytest.mark.parametrize(
    ("output", "expected", "right"),
    [
        ("Blue", "blue", True),
        ("  blue.\n", "Blue", True),
        ("the  sky", "the sky", True),
        ("blue, I think", "blue", False),
        ("", "blue", False),
        ("Paris .", "Paris", True),
        ("Paris", "Paris .", True),
        ("", "...", False),
        ("", ".", False),
        (".", ".", True),
        ("...", "...", True),
        ("42", 42, True),
        ("42.0", 42, True),
        ("43", 42, False),
        ("true", True, True),
        ("1", True, False),
        ("true", 1, False),
        ('{"a": [1]}', {"a": [True]}, False),
        ('{"a": [true]}', {"a": [True]}, True),
        ('{"a": 1.0}', {"a": 1}, True),
        ('{"a": 1, "b": 2}', {"a": 1}, False),
        ('{"a": [1, 2]}', {"a": [1, 2]}, True),
        ('```json\n{"a": [1, 2]}\n```', {"a": [1, 2]}, True),
        ('{"a": [2, 1]}', {"a": [1, 2]}, False),
        ("no json", {"a": 1}, False),
        ("ﬁne", "fine", True),
    ],
)
def test_right_or_wrong(output: str, expected: JsonValue, right: bool) -> None:
    assert is_right(output, expected) is right
