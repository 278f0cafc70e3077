"""Outputs that count as the same."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.outputs.diff import SeenOutputs, canonical, output_hash


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param('{"a": 1, "b": 2}', '{"b":2,"a":1}', True, id="key order"),
        pytest.param("[1, 2]", "[2, 1]", False, id="list order"),
        pytest.param("text  \r\nmore\n", "text\nmore", True, id="space at the end"),
        pytest.param("text more", "text  more", False, id="space inside"),
        pytest.param("{not json", "{ not json", False, id="no JSON"),
        pytest.param('{"a": 1}', '{"a": true}', False, id="one is not true"),
        pytest.param("[" * 5000, "[" * 5000, True, id="nested for ever"),
    ],
)
def test_same(one: str, other: str, same: bool) -> None:
    assert (output_hash(one) == output_hash(other)) is same


@pytest.mark.parametrize("output", [None, "", " \n"])
def test_an_absent_output_is_no_repeat(output: str | None) -> None:
    seen = SeenOutputs().after(output).after(output)
    assert not seen.seen(output)
    assert seen.hashes == ()


def test_seen_and_last() -> None:
    seen = SeenOutputs().after("a").after("b")
    assert seen.seen("a")
    again = seen.after("a")
    assert again.hashes == seen.hashes[::-1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_key_order_never_matters(value: Mapping[str, object]) -> None:
    backwards = {key: value[key] for key in reversed(list(value))}
    assert canonical(json.dumps(value)) == canonical(json.dumps(backwards, indent=2))
