"""Token estimates by content class, and their calibration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.foundation.tokens import TokenSizes, calibrate, estimate

PROSE = "The quick brown fox jumps over the lazy dog. " * 10
CODE = "def f(x):\n    return {y: [x[y], *z] for y in x if y != z(y)}\n" * 8


@pytest.mark.parametrize(
    ("text", "kind"),
    [(PROSE, "prose"), (CODE, "code"), ("春の海ひねもすのたりのたりかな" * 5, "cjk")],
    ids=["prose", "code", "cjk"],
)
def test_the_class_of_a_text(text, kind):
    sizes = estimate(text)
    assert getattr(sizes, kind) > 0.9 * sizes.total


@pytest.mark.parametrize(
    ("text", "total"),
    [("", 0), ("a", 1), ("word " * 9, 10), ("春" * 13, 10), ("{}[]();=" * 23, 80)],
    ids=["empty", "one", "prose", "cjk", "code"],
)
def test_characters_per_token(text, total):
    assert estimate(text).total == total


@given(st.text(max_size=400), st.text(max_size=400))
def test_longer_texts_are_never_smaller(left, right):
    assert estimate(left + "\n" + right).total >= estimate(left + "\n").total - 2
    assert estimate(left).total <= len(left)


@given(st.lists(st.builds(TokenSizes, prose=st.integers(0, 99), code=st.integers(0, 99))))
def test_sizes_add_up(parts):
    total = TokenSizes()
    for part in parts:
        total = total + part
    assert total.total == sum(part.total for part in parts)


@given(true=st.floats(0.3, 3.5), estimated=st.integers(200, 50_000))
def test_after_three_calls_an_estimate_is_off_by_fifteen_percent_at_most(true, estimated):
    factor = 1.0
    for _ in range(3):
        factor = calibrate(factor=factor, estimated=estimated, reported=round(estimated * true))
    if 0.5 <= true <= 2:
        assert abs(factor - true) <= 0.15 * true


@pytest.mark.parametrize(
    ("estimated", "reported", "factor"),
    [(0, 50, 1.0), (50, 0, 1.0), (100, 200, 1.5), (1, 1_000_000, 4.0), (1_000_000, 1, 0.5)],
    ids=["nothing estimated", "nothing reported", "half way", "upper bound", "half way down"],
)
def test_calibration(estimated, reported, factor):
    moved = calibrate(factor=1.0, estimated=estimated, reported=reported)
    assert moved == pytest.approx(factor, abs=0.001)
