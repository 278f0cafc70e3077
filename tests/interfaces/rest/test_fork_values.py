"""The changed settings of a fork arrive as they were sent."""

import pytest
from pydantic import JsonValue

from perdure.interfaces.rest.forks import _flags
from perdure.interfaces.rest.schemas import ForkBody
from perdure.submission.layers import flag_fields


@pytest.mark.parametrize(
    "value",
    [
        "go 😀", {"😀": ["a\nb\n", " c", "x" * 500 + " y"]}, 1e-05, 1e22, 10**30, "1e-05", "true",
        "2026-01-01", "01", "~", "", "...", "a: b #c", "<<", {"on": None, "2026": {"<<": 1}}, 7,
        "\x85\u2028\x7f\ufeff", [], {}, False,
    ],
)  # fmt: skip
def test_a_value_arrives_as_it_was_sent(value: JsonValue) -> None:
    flags = _flags(ForkBody(iteration=1, set={"context.told": value}))
    fields, problems = flag_fields(flags, "agent")
    assert problems == []
    assert fields == {"context": {"told": value}}
    assert "\n..." not in flags.sets[0]
