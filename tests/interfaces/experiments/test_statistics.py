"""Intervals: right as often as they say, the same for the same values, silent for too few."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.interfaces.experiments import statistics
from perdure.interfaces.experiments.statistics import FEWEST, MANY, interval


def drawn(kind: str, draw: random.Random, count: int) -> list[float]:
    match kind:
        case "scores":
            return [0.2 + draw.gauss(0, 0.3) for _ in range(count)]
        case "passes":  # 0.6 against 0.4 of a hundred: differences of -1, 0 and 1
            return [float(draw.random() < 0.6) - float(draw.random() < 0.4) for _ in range(count)]
        case _:
            return [draw.expovariate(5) for _ in range(count)]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["scores", "passes", "skewed"])
@pytest.mark.parametrize("count", [8, 20, 60])
def test_the_interval_covers_the_truth_in_19_of_20(
    kind: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 400)
    draw, held, times = random.Random(7), 0, 200
    for _ in range(times):
        found = interval(drawn(kind, draw, count))
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.2 <= found.high
    # Of 200 true intervals at 95 %, fewer than 180 hold once in 1,000 times.
    assert held >= 180


def test_no_effect_is_called_one_in_no_more_than_one_of_20(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 400)
    draw = random.Random(3)
    called = sum(interval([draw.gauss(0, 0.3) for _ in range(30)]).differs for _ in range(200))
    assert called <= 20


def test_the_same_values_give_the_same_interval() -> None:
    values = [0.1, 0.4, 0.2, 0.9, 0.3, 0.35]
    assert interval(values) == interval(list(values))


@pytest.mark.parametrize("count", range(FEWEST))
def test_too_few_values_have_no_interval(count: int) -> None:
    found = interval([0.5] * count)
    assert (found.low, found.high, found.differs) == (None, None, False)


def test_many_values_are_as_the_bootstrap_has_them() -> None:
    draw = random.Random(5)
    values = [draw.random() for _ in range(MANY)]
    resampled, normal = interval(values), interval([*values, 0.5])
    assert resampled.low == pytest.approx(normal.low, abs=0.003)
    assert resampled.high == pytest.approx(normal.high, abs=0.003)


def test_one_value_apart_from_the_others_widens_both_sides() -> None:
    found = interval([0.9] * 5 + [0.1])
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.5
    assert found.high > 0.9


@pytest.mark.parametrize(("freedom", "quantile"), [(4, 2.776), (9, 2.262), (29, 2.045)])
def test_students_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert statistics._student(freedom) == pytest.approx(quantile, abs=0.01)


@pytest.mark.parametrize("value", [0.05, 0.1, 0.2, 0.25, 0.3, 1 / 3, 0.7])
@pytest.mark.parametrize(("count", "others"), [(10, 1), (20, 2)])
def test_an_interval_scales_with_its_values(value: float, count: int, others: int) -> None:
    ones = interval([1.0] * (count - others) + [0.0] * others)
    found = interval([value] * (count - others) + [0.0] * others)
    assert ones.low is not None and ones.high is not None
    assert found.low == pytest.approx(value * ones.low, abs=1e-4)
    assert found.high == pytest.approx(value * ones.high, abs=1e-4)
    assert found.differs


@pytest.mark.parametrize(
    ("values", "differs"),
    [
        ([0.1] * 29 + [0.0], True),
        ([-0.1] * 29 + [0.0], True),
        ([0.3] * 19 + [0.0], True),
        ([1 / 3] * 9 + [0.0], True),
        ([0.25] * 9 + [0.5], True),
        ([0.7] * 9 + [0.9], True),
        ([0.1, -0.1] * 15, False),
        ([0.1] * 16 + [-0.1] * 14, False),
        ([0.0] * 9 + [0.3], False),
    ],
)
def test_winners_by_few_distinct_differences_are_called(values: list[float], differs: bool) -> None:
    found = interval(values)
    assert found.low is not None and found.high is not None
    assert -1 < found.low <= found.mean <= found.high < 1
    assert found.differs == differs


@given(st.lists(st.floats(0, 1), min_size=5, max_size=12))
def test_an_interval_of_scores_is_in_order(values: list[float]) -> None:
    found = interval(values)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.high
    assert found.count == len(values)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([1.0] * 9 + [0.6], 0.0, 1.0),
        ([0.0] * 9 + [0.4], 0.0, 1.0),
        ([0.0, 1.0, 0.0, 1.0, 1.0], 0.0, 1.0),
        ([0.0, 0.0, 0.0, 0.0, 1.0], 0.0, 1.0),
        ([1.0] * 6, 0.0, 1.0),
    ],
)
def test_a_mean_of_scores_lies_between_0_and_1(
    values: list[float], low: float, high: float
) -> None:
    found = interval(values).of_scores
    assert found.low is not None and found.high is not None
    assert low <= found.low <= found.mean <= found.high <= high


def test_a_narrow_interval_of_scores_stays_as_it_is() -> None:
    values = [0.4, 0.5, 0.6, 0.5, 0.45, 0.55]
    assert interval(values).of_scores == interval(values)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        # 0.025 ** (1 / 5), and so on: a table of Clopper and Pearson has the same.
        ([1.0] * 5, 0.4782, 1.0),
        ([0.0] * 5, 0.0, 0.5218),
        ([1.0] * 30, 0.8843, 1.0),
        ([0.8] * 30, None, None),
        ([1.0] * 4, None, None),
    ],
)
def test_equal_scores_have_an_exact_interval_or_none(
    values: list[float], low: float | None, high: float | None
) -> None:
    found = interval(values).of_scores
    assert (found.low, found.high, found.count) == (low, high, len(values))
    assert found.mean == values[0]


@pytest.mark.parametrize("value", [0.3, -0.3, 1.0])
def test_equal_differences_are_told_from_0_by_the_sign_test(value: float) -> None:
    assert not interval([value] * 5).of_differences.differs
    assert interval([value] * 6).of_differences.differs
    assert not interval([0.0] * 60).of_differences.differs


def test_too_few_scores_have_no_interval_either() -> None:
    assert interval([1.0]).of_scores == interval([1.0])
