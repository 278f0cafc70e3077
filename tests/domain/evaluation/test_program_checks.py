"""Scores of tests and linters: shares, costs, floors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.program_checks import score_of_lint, score_of_tests
from perdure.domain.evaluation.trajectory import rounded


@pytest.mark.parametrize(
    ("passed", "total", "score"),
    [
        pytest.param(0, 0, 1.0, id="no tests"),
        pytest.param(3, 4, 0.75, id="three of four"),
        pytest.param(0, 4, 0.0, id="none"),
    ],
)
def test_tests_score_the_share_that_passes(passed: int, total: int, score: float) -> None:
    assert score_of_tests(passed=passed, total=total) == score


@pytest.mark.parametrize(
    ("errors", "warnings", "score"),
    [
        pytest.param(0, 0, 1.0, id="clean"),
        pytest.param(1, 0, 0.9, id="an error"),
        pytest.param(0, 1, 0.97, id="a warning"),
        pytest.param(2, 3, 0.71, id="both"),
        pytest.param(8, 0, 0.2, id="the floor"),
        pytest.param(1_000, 1_000, 0.2, id="below the floor"),
    ],
)
def test_lint_costs_by_error_and_warning(errors: int, warnings: int, score: float) -> None:
    assert rounded(score_of_lint(errors=errors, warnings=warnings)) == score


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_lint_scores_stay_in_range_and_fall(errors: int, warnings: int) -> None:
    score = score_of_lint(errors=errors, warnings=warnings)
    assert 0.2 - 1e-9 <= score <= 1.0
    assert score_of_lint(errors=errors + 1, warnings=warnings) <= score
