"""A question is told from work, and in doubt it is work."""

import pytest

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.refine.planning import read_only_reason
from perdure.domain.refine.spec import RefineSettings

JUDGE = {"name": "right", "evaluator": {"judge": {}}}
STEEL = {"name": "steel", "evaluator": {"check": "contains", "all": ["steel"]}}


def _reason(
    goal: str,
    rubric: object = (JUDGE,),
    settings: dict[str, object] | None = None,
    *,
    writes: bool = False,
) -> str | None:
    return read_only_reason(
        goal,
        writes=writes,
        rubric=Rubric.model_validate(rubric),
        settings=RefineSettings.model_validate(settings or {}),
    )


@pytest.mark.parametrize(
    "goal",
    [
        "What does the login function in src/auth.rs do?",
        "Why is the parser slow? Which step takes longest?",
        "does the parser accept tabs?",
        "How many tests are there in version 2.1?",
    ],
)
def test_questions(goal: str) -> None:
    assert _reason(goal) == "the goal is a question, and its tools change nothing"


@pytest.mark.parametrize(
    "goal",
    [
        pytest.param("Write a product text.", id="order"),
        pytest.param("Name ten trees.", id="statement"),
        pytest.param("Can you write a poem?", id="polite order"),
        pytest.param("What is wrong with the parser? Fix it.", id="question and order"),
        pytest.param("The parser is slow. Why?", id="statement and question"),
        pytest.param("What is the plan", id="no question mark"),
        pytest.param("", id="nothing"),
        pytest.param("?", id="a mark alone"),
        pytest.param("What " + "very " * 200 + "long?", id="too long"),
    ],
)
def test_work(goal: str) -> None:
    assert _reason(goal) is None


QUESTION = "What does it do?"


@pytest.mark.parametrize(
    ("rubric", "settings"),
    [
        pytest.param((JUDGE, {**STEEL, "decides": True}), {}, id="a deciding check"),
        pytest.param(
            ({"name": "s", "evaluator": {"check": "json_schema", "schema": {}}},), {}, id="schema"
        ),
        pytest.param((STEEL,), {"output": {"parts": "lines"}}, id="parts"),
        pytest.param((JUDGE,), {"pattern": "checklist"}, id="checklist"),
        pytest.param((JUDGE,), {"min_iterations": 2}, id="more than one try"),
        pytest.param((JUDGE,), {"termination": {"type": "max_iterations", "limit": 2}}, id="tree"),
    ],
)
def test_a_question_whose_answer_is_an_artifact(
    rubric: object, settings: dict[str, object]
) -> None:
    assert _reason(QUESTION) is not None
    assert _reason(QUESTION, rubric, settings) is None


def test_a_question_of_a_run_that_may_write() -> None:
    assert _reason(QUESTION, writes=True) is None
