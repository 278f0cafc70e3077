"""Figures and foreign text."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.interfaces.cli.views.wording import (
    duration,
    money,
    one_line,
    score,
    sparkline,
    tokens,
)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "unknown"),
        (Decimal(0), "$0"),
        (Decimal("0.00001"), "<$0.0001"),
        (Decimal("0.0001"), "$0.0001"),
        (Decimal("0.0012"), "$0.0012"),
        (Decimal("0.01"), "$0.01"),
        (Decimal("0.319"), "$0.32"),
        (Decimal(2), "$2.00"),
    ],
)
def test_money_shows_as_many_digits_as_it_needs(value: Decimal | None, told: str) -> None:
    assert money(value) == told


@pytest.mark.parametrize(
    ("count", "told"),
    [(0, "0"), (999, "999"), (1_000, "1.0k"), (38_400, "38k"), (1_250_000, "1.2M")],
)
def test_tokens(count: int, told: str) -> None:
    assert tokens(count) == told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (12.4, "12 s"),
        (59.6, "1 min"),
        (185, "3 min 5 s"),
        (7_800, "2 h 10 min"),
        (86_400 * 4 + 3_600, "4 d 1 h"),
    ],
)
def test_duration(seconds: float, told: str) -> None:
    assert duration(seconds) == told


@pytest.mark.parametrize(
    ("value", "told"), [(None, "–"), (0, "0.00"), (0.894, "0.89"), (0.999, "0.99"), (1.0, "1.00")]
)
def test_a_score_is_never_rounded_up_to_full(value: float | None, told: str) -> None:
    assert score(value) == told


def test_sparkline_has_one_sign_per_iteration() -> None:
    assert sparkline([0.0, 0.5, None, 1.0]) == "▁▅·█"


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_one_line_is_one_short_line(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line
