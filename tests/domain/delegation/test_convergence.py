"""When results that stopped changing end a run, and when they must not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.delegation.spec import StallSettings
from perdure.domain.delegation.stall import Measurement, Progress, convergence, findings_hash

SETTINGS = StallSettings()


def ends(
    scores: list[float],
    *,
    iteration: int = 9,
    pending: int = 0,
    total: int | None = None,
    findings: list[str] | None = None,
) -> str | None:
    found = findings or [f"f{number}" for number in range(len(scores))]
    readings = tuple(
        Measurement(confidence=score, output="o", findings=one)
        for score, one in zip(scores, found, strict=True)
    )
    progress = Progress(readings=readings, total=len(scores) if total is None else total)
    return convergence(progress, iteration=iteration, pending=pending, settings=SETTINGS)


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        ([0.7, 0.7, 0.7], True),
        ([0.70, 0.73, 0.70], True),
        ([0.70, 0.74, 0.74], True),
        ([0.70, 0.75, 0.75], False),
        ([0.70, 0.66, 0.62], True),
        ([0.9, 0.5, 0.5], True),
        ([0.3, 0.70, 0.70], False),
        ([0.70, 0.70, 0.75], False),
        ([0.70, 0.70, 0.65], False),
        ([0.70, 0.70, 0.6501], True),
        ([0.94, 0.94, 0.9499], True),
        ([0.95, 0.95, 0.95], False),
        ([1.0, 1.0, 1.0], False),
        ([0.0, 0.0, 0.0], False),
        ([0.01, 0.01, 0.01], True),
        ([0.50, 0.52, 0.54], False),
        ([0.50, 0.51, 0.52], False),
        ([0.50, 0.501, 0.502], True),
        ([0.30, 0.38, 0.46, 0.54, 0.62], False),
        ([0.10, 0.15, 0.20, 0.25], False),
        ([0.7, 0.7], True),
        ([0.7, 0.76], False),
        ([0.7], False),
        ([], False),
    ],
    ids=str,
)
def test_a_plateau_of_confidence(scores: list[float], wanted: bool) -> None:
    assert (ends(scores) is not None) is wanted


@pytest.mark.parametrize(
    ("iteration", "pending", "wanted"),
    [
        (4, 0, False),
        (5, 0, True),
        (5, 2, True),
        (5, 3, False),
        (6, 3, True),
        (12, 10, False),
        (13, 10, True),
    ],
)
def test_the_floor_follows_the_pending_subtasks(iteration: int, pending: int, wanted: bool) -> None:
    assert (ends([0.7] * 3, iteration=iteration, pending=pending) is not None) is wanted


@pytest.mark.parametrize(
    ("scores", "total", "wanted"),
    [([0.7, 0.7], 2, True), ([0.7, 0.7], 9, False), ([0.7] * 3, 9, True)],
    ids=["only two exist", "two since a switch", "three since a switch"],
)
def test_a_strategy_gets_three_readings(scores: list[float], total: int, wanted: bool) -> None:
    assert (ends(scores, total=total) is not None) is wanted


@pytest.mark.parametrize(
    ("findings", "wanted"),
    [
        (["a", "a", "a"], True),
        (["a", "a", "b"], False),
        (["", "", ""], False),
        (["b", "a", "a"], False),
        (["b", "a", "a", "a"], True),
        (["a", "a"], False),
    ],
    ids=["equal", "one differs", "empty", "two equal", "the last three", "only two"],
)
def test_equal_key_findings(findings: list[str], wanted: bool) -> None:
    scores = [0.8, 0.5, 0.2, 0.3][: len(findings)]
    found = ends(scores, findings=findings)
    assert (found is not None) is wanted
    assert found is None or "same findings" in found


def test_findings_are_compared_as_sets_without_case_and_spaces() -> None:
    assert findings_hash(["A  b", "c"]) == findings_hash(["c", "a b", "c"])
    assert findings_hash(["a"]) != findings_hash(["b"])
    assert findings_hash(["", " "]) == "" == findings_hash([])


@given(
    st.floats(min_value=0.01, max_value=0.3),
    st.floats(min_value=0, max_value=0.5),
    st.integers(min_value=2, max_value=20),
)
def test_slow_steady_improvement_never_converges(step: float, start: float, count: int) -> None:
    scores = [start + step * number for number in range(count) if start + step * number <= 1]
    assert ends(scores) is None


@pytest.mark.parametrize("scores", [[0.2, 0.5, 0.8], [0.50, 0.51, 0.52]], ids=["fast", "slow"])
def test_work_that_gets_better_has_not_converged_though_its_findings_stay(
    scores: list[float],
) -> None:
    assert ends(scores, findings=["a", "a", "a"]) is None
