"""No limit of a task is a number that nobody means, and no part of it grows without bound."""

import math

import pytest
from pydantic import ValidationError

from perdure.domain.foundation.problems import problems_of
from perdure.domain.foundation.spec_size_limits import (
    DEEPEST,
    MOST_CHARACTERS,
    MOST_ENTRIES,
    size_problem,
)
from perdure.domain.roles.definition import LoopDefinition
from perdure.domain.specs import RUN_SPEC
from perdure.domain.turns.settings import ToolFilter

HUGE = 10**30
AGENT = ("max_iterations", "max_illegal_strikes", "max_tool_repeat", "output_token_ceiling")
RUBRIC = [{"name": "tone", "evaluator": {"judge": {}}}]


def refused(given: dict[str, object]) -> str:
    """What a person is told of a task that is refused."""
    with pytest.raises(ValidationError) as caught:
        RUN_SPEC.validate_python(given)
    return "; ".join(str(one) for one in problems_of(caught.value, given))


@pytest.mark.parametrize("field", AGENT)
@pytest.mark.parametrize("value", [0, -1, HUGE])
def test_limits_of_agents_are_at_least_one_and_bounded(field: str, value: int) -> None:
    said = refused({"kind": "agent", "goal": "x", "agent": {field: value}})
    assert said.startswith(f"agent.{field}: found {value}")


@pytest.mark.parametrize("value", [0, -3, HUGE])
def test_rework_is_at_least_once_and_bounded(value: int) -> None:
    roles = {"definition": "pair", "max_rework_attempts": value}
    said = refused({"kind": "roles", "goal": "x", "roles": roles})
    assert said.startswith(f"roles.max_rework_attempts: found {value}")


@pytest.mark.parametrize(
    "rule",
    [{"after": 0}, {"after": HUGE}, {"until": 0}, {"after": 5, "until": 4}],
    ids=["before the first", "never", "until nothing", "over before it begins"],
)
def test_a_tool_filter_is_in_force_at_some_time(rule: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        ToolFilter.model_validate(rule)


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "agent", "gates": {"timeout_s": math.inf}},
        {"kind": "agent", "tools": {"timeouts": {"fs.read": 0}}},
        {"kind": "agent", "tools": {"timeouts": {"fs.read": math.inf}}},
        {"kind": "agent", "tools": {"timeouts": {"fs.read": math.nan}}},
        {"kind": "refine", "rubric": RUBRIC, "refine": {"patience": HUGE}},
        {"kind": "delegation", "delegation": {"workers_per_iteration": HUGE}},
        {"kind": "delegation", "delegation": {"submanagers": {"per_run": HUGE}}},
        {"kind": "delegation", "delegation": {"tools_factory": {"per_run": HUGE}}},
        {"kind": "agent", "tools": {"allow": ["fs.read"] * (MOST_ENTRIES + 1)}},
        {"kind": "agent", "models": {"executor": ["m"] * (MOST_ENTRIES + 1)}},
        {"kind": "agent", "agent": {"system": "x" * (MOST_CHARACTERS + 1)}},
        {"kind": "agent", "skills": ["s"] * (MOST_ENTRIES + 1)},
        {"kind": "delegation", "delegation": {"deliverables": ["a"] * (MOST_ENTRIES + 1)}},
        {"kind": "agent", "agent": {"messages": [{"role": "user", "text": "x" * 10**6}]}},
    ],
)  # fmt: skip
def test_other_limits_lists_and_texts_are_bounded(given: dict[str, object]) -> None:
    assert refused({"goal": "x", **given})


@pytest.mark.parametrize("limit", [0, HUGE])
@pytest.mark.parametrize("kind", ["goal_bound", "iteration_bound", "evaluation_bound"])
def test_rounds_of_a_definition_are_bounded(kind: str, limit: int) -> None:
    named = {
        "goal_bound": "max_iterations",
        "iteration_bound": "iterations",
        "evaluation_bound": "max_review_rounds",
    }
    condition: dict[str, object] = {"type": kind, named[kind]: limit}
    if kind == "evaluation_bound":
        condition["criteria"] = "good"
    roles = [{"name": "a", "prompt": "do"}]
    with pytest.raises(ValidationError, match=r"10000|greater"):
        LoopDefinition.model_validate(
            {"name": "x", "roles": roles, "termination_condition": condition}
        )


def test_what_is_too_large_is_named_by_its_place() -> None:
    said = size_problem({"tools": {"allow": [""] * 1_001}})
    assert said == "tools.allow: 1,001 entries, 1,000 are allowed"
    nested: object = 1
    for _ in range(DEEPEST + 2):
        nested = [nested]
    assert "nested deeper" in (size_problem({"agent": nested}) or "")


def test_data_of_the_task_is_bounded_by_its_door_alone() -> None:
    assert size_problem({"context": {"rows": [0] * 5_000, "text": "x" * 10**6}}) is None
