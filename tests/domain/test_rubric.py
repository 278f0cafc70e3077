"""Rubrics: what is accepted, what is refused with which message, defaults and the digest."""

from collections.abc import Mapping

import pytest
from pydantic import ValidationError

from perdure.domain.checks import JsonSchemaCheck
from perdure.domain.problems import problems_of
from perdure.domain.rubric import Dimension, Rubric

LENGTH = {"check": "length", "unit": "words", "max": 9}
WORDS = {"name": "short", "evaluator": LENGTH}
TONE = {"name": "tone", "evaluator": {"judge": {}}}


def refused(*dimensions: Mapping[str, object]) -> list[str]:
    value = list(dimensions)
    with pytest.raises(ValidationError) as raised:
        Rubric.model_validate(value)
    return [str(problem) for problem in problems_of(raised.value, value, root="rubric")]


@pytest.mark.parametrize(
    ("evaluator", "message"),
    [
        pytest.param({"check": "contain"}, "did you mean contains?", id="typo"),
        pytest.param({"check": "python", "code": "1"}, '"python" cannot be evaluated', id="python"),
        pytest.param({"check": "tests"}, '"tests" cannot be evaluated', id="tests"),
        pytest.param({"human": {}}, '"human" cannot be evaluated', id="human"),
        pytest.param({}, "check: one of contains, regex, length, json_schema, equals", id="empty"),
        pytest.param({"check": "contains"}, "at least one term", id="no terms"),
        pytest.param({"check": "contains", "all": [""]}, "no empty ones", id="empty term"),
        pytest.param({"check": "length", "unit": "words"}, "min, max or both", id="no bound"),
        pytest.param({**LENGTH, "min": 10}, "min at most as large as max", id="crossed bounds"),
        pytest.param({**LENGTH, "unit": "pages"}, "rubric[0].evaluator.unit", id="unit"),
        pytest.param(
            {"check": "regex"}, "rubric[0].evaluator.pattern: found nothing", id="pattern"
        ),
        pytest.param({"judge": {"model": "x"}}, "rubric[0].evaluator.judge.model", id="judge"),
    ],
)
def test_evaluators_that_are_refused(evaluator: Mapping[str, object], message: str) -> None:
    messages = refused({"name": "a", "evaluator": evaluator})
    assert len(messages) == 1
    assert message in messages[0]


@pytest.mark.parametrize(
    ("dimensions", "message"),
    [
        pytest.param((), "at least one dimension", id="empty"),
        pytest.param((WORDS, TONE, WORDS), "more than once: short", id="name twice"),
        pytest.param(({**WORDS, "weight": -1},), "rubric[0].weight: found -1", id="weight"),
        pytest.param(({**TONE, "decides": True},), "decides on a check only", id="judge decides"),
        pytest.param(({**TONE, "part": 1},), "part on a check only", id="judge of a part"),
        pytest.param(({**WORDS, "part": 0},), "rubric[0].part: found 0", id="part 0"),
    ],
)
def test_rubrics_that_are_refused(
    dimensions: tuple[Mapping[str, object], ...], message: str
) -> None:
    assert any(message in text for text in refused(*dimensions))


def test_every_problem_is_told_at_once() -> None:
    assert len(refused({"name": "a"}, {**WORDS, "weight": -1}, {**TONE, "weightt": 1})) == 3


def test_digest_follows_the_meaning() -> None:
    rubric = Rubric.model_validate([WORDS, TONE])
    assert Rubric.model_validate_json(rubric.model_dump_json()).digest == rubric.digest
    assert Rubric.model_validate([TONE, WORDS]).digest != rubric.digest
    assert Rubric.model_validate([{**WORDS, "weight": 2}, TONE]).digest != rubric.digest


def test_a_schema_check_survives_the_round_trip() -> None:
    schema = {"check": "json_schema", "schema": {"type": "object"}}
    rubric = Rubric.model_validate([{"name": "shape", "evaluator": schema}])
    again = Rubric.model_validate(rubric.model_dump())
    assert isinstance(again.dimensions[0].evaluator, JsonSchemaCheck)
    assert again == rubric


def test_parts_and_examples() -> None:
    example = {"ask": "Name it.", "answer": "Name: Blanket"}
    rubric = Rubric.model_validate(
        [
            {**WORDS, "part": 2},
            {"name": "other", "evaluator": LENGTH, "part": 2, "example": example},
            TONE,
        ]
    )
    assert rubric.parts == (2,)
    assert [item.name for item in rubric.of_part(2)] == ["short", "other"]
    found = rubric.example_of(2)
    assert found is not None
    assert found.answer == "Name: Blanket"
    assert rubric.example_of(1) is None
    assert [item.name for item in rubric.judged] == ["tone"]


@pytest.mark.parametrize(
    ("dimension", "score", "threshold", "passes"),
    [
        pytest.param(WORDS, 0.99, 0.8, False, id="a check passes at 1 only"),
        pytest.param(WORDS, 1.0, None, True, id="check"),
        pytest.param(TONE, 0.8, 0.8, True, id="judge at the threshold"),
        pytest.param(TONE, 0.99, None, False, id="judge without a threshold"),
        pytest.param(TONE, None, 0.8, False, id="no score"),
    ],
)
def test_passes(
    dimension: Mapping[str, object], score: float | None, threshold: float | None, passes: bool
) -> None:
    assert Dimension.model_validate(dimension).passes(score, threshold) is passes
