"""Values of Python programs as data; the classes here have the shape of those of libraries."""

import enum
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from perdure.domain.foundation.errors import InvalidInput
from perdure.submission.plain_values import plain_fields, plain_rows

HALF = "\ud800"


class Colour(enum.Enum):
    RED = "red"


class Size(BaseModel):
    width: int


class Scalar:
    """A number of numpy."""

    shape = ()

    def __init__(self, value: object) -> None:
        self.value = value

    def item(self) -> object:
        return self.value


class Array:
    """An array of numpy, or a series of pandas."""

    shape = (2,)

    def __init__(self, *values: object) -> None:
        self.values = values

    def item(self) -> object:
        raise ValueError("can only convert an array of size 1")

    def __iter__(self) -> Iterator[object]:
        return iter(self.values)


class NaTType:
    """An empty moment of pandas."""


class datetime64:
    """A moment of numpy, whose item() may be a bare number."""

    shape = ()

    def __str__(self) -> str:
        return "2026-01-31T12:00"

    def item(self) -> object:
        return 1_769_860_800_000_000_000


class Frame:
    """A frame of pandas."""

    def __init__(self, columns: list[object], *rows: list[object]) -> None:
        self.columns = columns
        self.rows = rows

    def __iter__(self) -> Iterator[object]:
        return iter(self.columns)  # as pandas does

    def to_dict(self, orient: str) -> list[dict[object, object]]:
        assert orient == "records"
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (Scalar(3), 3),
        (Scalar(value=True), True),
        (Scalar(0.5), 0.5),
        (Array(Scalar(1), "b"), [1, "b"]),
        (datetime64(), "2026-01-31T12:00"),
        ((1, 2), [1, 2]),
        ((n for n in range(2)), [0, 1]),
        (date(2026, 1, 31), "2026-01-31"),
        (datetime(2026, 1, 31, tzinfo=UTC), "2026-01-31T00:00:00+00:00"),
        (timedelta(minutes=1), 60.0),
        (Decimal("1.50"), "1.50"),
        (Path("a") / "b", "a/b"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        (Size(width=3), {"width": 3}),
        ({"x": [Scalar(1)]}, {"x": [1]}),
        (None, None),
    ],
)
def test_what_has_a_counterpart_is_made_data(found: object, told: object) -> None:
    assert plain_fields({"n": found}, heading="It") == {"n": told}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (float("nan"), "n: found NaN; allowed: a finite number, or null"),
        (Scalar(float("inf")), "n: found Infinity; allowed: a finite number"),
        (Decimal("NaN"), "a finite number"),
        (NaTType(), "a finite number, or null"),
        (b"x", r"n: found b'x'; allowed: a text: value.decode\(\)"),
        ({1}, "a set has no order"),
        (Frame(["a"], [1]), r"to_dict\('records'\)"),
        (len, "save it in a file"),
        (HALF, "half of a surrogate pair"),
        ({HALF: 1}, "half of a surrogate pair"),
        ({1: 2}, "n: found 1; allowed: names that are texts"),
        ([[object()]], r"n\[0\]\[0\]: found <object"),
    ],
)
def test_what_has_none_is_refused_with_its_place(found: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        plain_fields({"n": found, "sound": 1}, heading="The task")
    assert str(refused.value).startswith("The task cannot be sent as JSON:")
    assert len(refused.value.problems) == 1


def test_a_value_that_holds_itself_is_refused() -> None:
    own: list[object] = []
    own.append(own)
    with pytest.raises(InvalidInput, match="does not hold itself"):
        plain_fields({"n": own}, heading="It")


def test_a_tree_whose_parts_name_what_they_are_in_is_refused_at_once() -> None:
    """Of the ways through it there are more at each level than anybody can go."""
    tree: dict[str, object] = {"name": "root"}
    tree["parts"] = [{"in": tree}, {"in": tree}]
    with pytest.raises(InvalidInput, match="does not hold itself"):
        plain_fields({"n": tree}, heading="It")
    with pytest.raises(InvalidInput, match=r"inputs\[1\]\.parts"):
        plain_rows([tree], heading="It")


def test_rows_of_a_frame_are_its_cells_and_not_the_names_of_its_columns() -> None:
    frame = Frame(["id", "weight"], ["a", Scalar(1.5)], ["b", float("nan")], ["c", NaTType()])
    assert plain_rows(frame, heading="It") == [
        {"id": "a", "weight": 1.5}, {"id": "b", "weight": None}, {"id": "c", "weight": None},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Frame(["a", "a"], [1, 2]), 'inputs: found "a"; allowed: columns with a name of their own'),
        (Frame([0], [1]), r"inputs\[1\]: found 0; allowed: names that are texts"),
        ([{"a": float("nan")}], r"inputs\[1\]\.a: found NaN"),
        ([{"a": b"x"}] * 30, "and 10 more"),
        (None, "inputs: found null; allowed: a list, a frame, or the path of a file"),
        ({"a": 1}, "a list, a frame"),
        (b"abc", "a list, a frame"),
        (3, "a list, a frame"),
    ],
)
def test_rows_that_are_none_are_refused(given: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        plain_rows(given, heading="It")


def test_a_generator_and_a_series_are_lists() -> None:
    assert plain_rows((str(n) for n in range(2)), heading="It") == ["0", "1"]
    assert plain_rows(Array("a", "b"), heading="It") == ["a", "b"]


WORDS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner),
)


@given(JSON)
def test_data_stays_what_it_is(value: object) -> None:
    assert plain_fields({"n": value}, heading="It") == {"n": value}
