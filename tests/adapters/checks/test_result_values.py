"""What a check may return: numbers of Python, and those of numpy, pandas and torch."""

from decimal import Decimal

import pytest

from perdure.adapters.checks.builtin_checks import result_of
from perdure.extending.check_decorator import CheckFailed, CheckResult


class Scalar:
    """A number as numpy has it: no number of Python, until `item` is called."""

    def __init__(self, *values: object) -> None:
        self._values = values

    def item(self) -> object:
        if len(self._values) != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self._values[0]


@pytest.mark.parametrize(
    ("value", "score"),
    [
        (Scalar(0.25), 0.25),
        (Scalar(True), 1.0),
        (Scalar(0), 0.0),
        (Decimal("0.5"), 0.5),
        ((Scalar(0.5), "half is missing"), 0.5),
        (CheckResult(score=Scalar(0.75)), 0.75),  # type: ignore[arg-type]
    ],
)
def test_a_number_of_any_library_is_a_score(value: object, score: float) -> None:
    found = result_of(value)
    assert (found.score, type(found.score)) == (score, float)


@pytest.mark.parametrize(
    "value", [Scalar(float("nan")), Scalar(0.1, 0.2), Scalar("1"), Scalar(87), Decimal("NaN"), None]
)
def test_what_is_no_score_is_refused(value: object) -> None:
    with pytest.raises(CheckFailed, match="no score"):
        result_of(value)
