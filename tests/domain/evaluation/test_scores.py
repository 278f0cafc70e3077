"""Scores: caps, weights, and what leaves an iteration unscored."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import (
    DimensionScore,
    Evaluation,
    Finding,
    failing,
    has_passed_all_items,
    has_passed_deciding_checks,
    overall_score,
    stale_copy,
    still_open,
    weighted_mean,
)

LENGTH = {"check": "length", "unit": "words", "max": 9}


def rubric(*weights: float | None, decides: tuple[int, ...] = ()) -> Rubric:
    return Rubric.model_validate(
        [
            {"name": f"d{n}", "weight": weight, "decides": n in decides, "evaluator": LENGTH}
            for n, weight in enumerate(weights)
        ]
    )


def finding(severity: str, *, number: int = 1, dimension: str = "d0") -> Finding:
    return Finding.model_validate(
        {"id": f"F{number}", "severity": severity, "dimension": dimension, "title": "t"}
    )


def score(number: int, value: float | None, *findings: Finding) -> DimensionScore:
    return DimensionScore(name=f"d{number}", score=value, source="check", findings=findings)


def scores(*values: float | None) -> Evaluation:
    return Evaluation(dimensions=tuple(score(n, value) for n, value in enumerate(values)))


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.01, 1.01], ids=str)
def test_what_is_no_score_cannot_stand_as_one(value: float) -> None:
    with pytest.raises(ValidationError):
        score(0, value)


@pytest.mark.parametrize(
    ("value", "severities", "capped"),
    [
        pytest.param(1.0, (), 1.0, id="none"),
        pytest.param(1.0, ("suggestion",), 1.0, id="suggestion"),
        pytest.param(1.0, ("important",), 0.9, id="important"),
        pytest.param(1.0, ("important", "blocker"), 0.3, id="blocker"),
        pytest.param(0.2, ("blocker",), 0.2, id="a cap never lifts"),
        pytest.param(None, ("blocker",), None, id="no score"),
    ],
)
def test_caps(value: float | None, severities: tuple[str, ...], capped: float | None) -> None:
    found = tuple(finding(severity, number=n) for n, severity in enumerate(severities))
    opinion = score(0, value, *found).model_copy(update={"source": "judge"})
    assert opinion.capped == capped


@pytest.mark.parametrize("share", [0.91, 0.95, 0.99])
def test_a_check_has_counted_what_it_found(share: float) -> None:
    found = (finding("important", number=1), finding("blocker", number=2))
    assert score(0, share, *found).capped == share


@pytest.mark.parametrize(
    ("weights", "values", "overall"),
    [
        pytest.param((None, None), (1.0, 0.0), 0.5, id="default weights"),
        pytest.param((2, 1), (1.0, 0.4), 0.8, id="weighted"),
        pytest.param((0, 0), (1.0, 0.5), 0.75, id="no weight at all: plain mean"),
        pytest.param((1, 0), (0.5, 1.0), 0.5, id="weight 0 counts nothing"),
        pytest.param((1, 1), (1.0, None), None, id="a failed one"),
        pytest.param((1, 1), (1.0,), None, id="a missing one"),
        pytest.param((1, 0), (1.0, None), None, id="missing without weight"),
        pytest.param((1e308, 1e308), (1.0, 0.5), 0.75, id="huge weights"),
        pytest.param((5e-324, 5e-324), (1.0, 0.5), 0.75, id="tiny weights"),
    ],
)
def test_overall(
    weights: tuple[float | None, ...], values: tuple[float | None, ...], overall: float | None
) -> None:
    assert overall_score(rubric(*weights), scores(*values)) == overall


def test_a_stale_dimension_is_shown_but_leaves_the_iteration_unscored() -> None:
    stale = stale_copy(score(1, 1.0))
    evaluation = Evaluation(dimensions=(score(0, 1.0), stale))
    assert evaluation.scores() == {"d0": 1.0, "d1": 1.0}
    assert overall_score(rubric(1, 1), evaluation) is None
    assert failing(rubric(1, 1), evaluation, None) == ("d1",)
    assert not has_passed_deciding_checks(rubric(1, 1, decides=(1,)), evaluation)


@pytest.mark.parametrize(
    ("decides", "values", "passes"),
    [
        pytest.param((), (1.0, 1.0), False, id="nothing decides"),
        pytest.param((0,), (1.0, 0.0), True, id="the one that decides"),
        pytest.param((0, 1), (1.0, 0.99), False, id="not all"),
        pytest.param((0,), (None, 1.0), False, id="no score"),
    ],
)
def test_deciding(decides: tuple[int, ...], values: tuple[float | None, ...], passes: bool) -> None:
    assert has_passed_deciding_checks(rubric(1, 1, decides=decides), scores(*values)) is passes


def test_items_and_failing_ones() -> None:
    assert has_passed_all_items(rubric(1, 1), scores(1.0, 1.0), None)
    assert not has_passed_all_items(rubric(1, 1), scores(1.0, 0.9), 0.8)
    assert failing(rubric(1, 1, 1), scores(0.0, 1.0), None) == ("d0", "d2")


def test_a_finding_is_closed_by_an_evaluation_that_settles_it() -> None:
    before = (finding("blocker", number=1), finding("important", number=2, dimension="d1"))
    assert still_open(before, score(0, 0.5)) == before[:1]
    assert still_open(before, score(0, 1.0)) == ()
    assert still_open(before, score(0, 0.5, finding("important", number=1))) == ()
    assert still_open(before, score(2, 0.5)) == ()


@given(st.lists(st.tuples(st.floats(0, 1e300), st.floats(0, 1)), min_size=1, max_size=8))
def test_a_mean_lies_between_its_scores(weighted: list[tuple[float, float]]) -> None:
    mean = weighted_mean(weighted)
    counted = [one for weight, one in weighted if weight > 0] or [one for _, one in weighted]
    assert mean is not None
    assert min(counted) - 1e-9 <= mean <= max(counted) + 1e-9
