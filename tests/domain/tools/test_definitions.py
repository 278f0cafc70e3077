"""What is told of a tool's result to those who watch."""

import pytest

from perdure.domain.tools.definitions import BRIEF_CHARACTERS, in_brief


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ""),
        (" \n\n", ""),
        ("87 msgs", "87 msgs"),
        ("\n  a   b\n\nc\n", "a b (and 1 more line)"),
        ("a\nb\nc", "a (and 2 more lines)"),
        ("x" * 200, "x" * (BRIEF_CHARACTERS - 1) + "…"),
    ],
    ids=["nothing", "blank", "one line", "two lines", "three lines", "long"],
)
def test_a_result_in_brief(text: str, told: str) -> None:
    assert in_brief(text) == told
