"""Synthetic inputs, results, and what smoke and dry run make of a call."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from perdure.domain.generated_tools.draft import ToolExample
from perdure.domain.generated_tools.dry_run import (
    MOST_VALUES,
    Crashed,
    NoObject,
    Raised,
    Returned,
    Trial,
    as_object,
    dry_run_refusal,
    same,
    smoke_refusal,
    synthetic_arguments,
    synthetic_value,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20).filter(
        lambda text: text.isprintable()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=4), inner),
    max_leaves=12,
)  # fmt: skip

SYNTHETIC: dict[str, tuple[JsonValue, JsonValue]] = {
    "default": ({"type": "integer", "default": 7, "enum": [1]}, 7),
    "first choice": ({"type": "string", "enum": ["x", "y"]}, "x"),
    "text": ({"type": "string"}, ""),
    "whole number": ({"type": "integer"}, 0),
    "number": ({"type": "number"}, 0),
    "yes or no": ({"type": "boolean"}, False),
    "list": ({"type": "array", "items": {"type": "string"}}, []),
    "object": ({"type": "object"}, {}),
    "nothing": ({"type": "null"}, None),
    "either": ({"type": ["null", "string"]}, ""),
    "undeclared": ({}, None),
}


@pytest.mark.parametrize(("schema", "value"), SYNTHETIC.values(), ids=SYNTHETIC)
def test_a_synthetic_value(schema: JsonValue, value: JsonValue) -> None:
    assert synthetic_value(schema) == value


@given(JSON)
def test_synthetic_arguments_are_made_of_any_schema(schema: JsonValue) -> None:
    made = synthetic_arguments({"type": "object", "properties": {"a": schema, "b": {}}})
    assert set(made) == {"a", "b"}
    assert synthetic_arguments({"properties": schema}).keys() <= (
        schema.keys() if isinstance(schema, dict) else set()
    )


@given(st.dictionaries(st.text("abc", max_size=4), JSON))
def test_json_is_a_result_as_it_is(value: dict[str, JsonValue]) -> None:
    assert as_object(value) == value
    assert same(value, value)


ODD = {
    "nothing": None,
    "a number": 3,
    "a list": [{}],
    "a key that is no text": {1: 2},
    "not a number": {"a": math.nan},
    "endless": {"a": math.inf},
    "a set": {"a": {1}},
    "bytes": {"a": b"x"},
    "an object of its own": {"a": object()},
    "too many": {"a": [0] * (MOST_VALUES + 1)},
    "too long": {"a": "x" * 3_000_000},
    "too large": {"a": 10**400},
}


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_what_json_does_not_have_is_no_result(value: object) -> None:
    assert isinstance(as_object(value), NoObject)


def test_a_result_that_holds_itself_is_none() -> None:
    value: dict[str, object] = {}
    value["a"] = value
    assert isinstance(as_object(value), NoObject)


def test_a_tuple_is_a_list() -> None:
    assert as_object({"a": (1, (2,))}) == {"a": [1, [2]]}


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (0.1 + 0.2, 0.3, True),
        (1, 1.0, True),
        (1, True, False),
        (False, 0, False),
        ({"a": [1.0]}, {"a": [1]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [2, 1], False),
        ("1", 1, False),
        (None, None, True),
        (2**1024 - 1, 1, False),
        (2**1024 - 1, 2**1024 - 1, True),
        (2**1024 - 1, 1.0, False),
        (2**60, 2**60 + 1, False),
    ],
)
def test_results_are_equal_but_for_rounding(one: JsonValue, other: JsonValue, equal: bool) -> None:
    assert same(one, other) == equal


TRIALS: dict[str, tuple[Trial, bool, bool]] = {
    "the declared result": (Returned({"n": 2}), True, True),
    "another result": (Returned({"n": 3}), False, True),
    "a refusal": (Raised("ValueError", "no text"), False, True),
    "a refusal in its own words": (Raised("KeyError", "unit", deliberate=True), False, True),
    "an assertion": (Raised("AssertionError", "", deliberate=True), False, True),
    "a crash": (Raised("ZeroDivisionError", "division by zero"), False, False),
    "not written yet": (Raised("NotImplementedError", "", deliberate=True), False, False),
    "a limit": (Crashed("it took more than 5 s"), False, False),
    "no object": (Crashed("it returned nothing"), False, False),
}


@pytest.mark.parametrize(("trial", "smoke", "dry"), TRIALS.values(), ids=TRIALS)
def test_what_a_trial_shows(trial: Trial, smoke: bool, dry: bool) -> None:
    example = ToolExample(arguments={"text": "a b"}, result={"n": 2})
    failed, refused = smoke_refusal(example, trial), dry_run_refusal({"text": ""}, trial)
    assert (failed is None, refused is None) == (smoke, dry)
    for found, stage in ((failed, "smoke"), (refused, "dry_run")):
        if found is not None:
            assert (found.stage, found.code, found.category) == (stage, 422, stage)
            assert found.repairable


def test_an_example_without_a_result_only_has_to_give_one() -> None:
    example = ToolExample(arguments={})
    assert smoke_refusal(example, Returned({"any": 1})) is None
    assert smoke_refusal(example, Raised("ValueError", "no")) is not None
