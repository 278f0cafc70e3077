"""A goal says something: a run without one would pay a model to guess."""

import pytest
from pydantic import ValidationError

from perdure.domain.run.messages import Amend
from perdure.domain.specs import RUN_SPEC

BLANK = ["", "   ", "\n\t", "\u200b", "<!-- -->", "```\n```"]


@pytest.mark.parametrize("kind", ["agent", "refine", "delegation"])
@pytest.mark.parametrize("goal", BLANK)
def test_a_task_without_words_is_refused(kind: str, goal: str) -> None:
    with pytest.raises(ValidationError, match="goal"):
        RUN_SPEC.validate_python({"kind": kind, "goal": goal})


@pytest.mark.parametrize("goal", BLANK)
def test_a_goal_is_not_amended_to_nothing(goal: str) -> None:
    with pytest.raises(ValidationError, match="goal"):
        Amend(goal=goal)


@pytest.mark.parametrize("goal", [" a ", "5", "?", "🙂"])
def test_a_goal_stays_as_it_was_said(goal: str) -> None:
    assert RUN_SPEC.validate_python({"kind": "agent", "goal": goal}).goal == goal
    assert Amend(goal=goal).goal == goal
