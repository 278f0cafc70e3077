"""Termination trees against facts: every condition, combinations, and totality."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from condition_trees import read_condition
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.check_termination import (
    TerminationFacts,
    check_termination,
    leading_number,
)
from perdure.domain.evaluation.outcomes import REASONS
from perdure.domain.evaluation.trajectory import Trajectory

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def follow(*scores: float | None) -> Trajectory:
    trajectory = Trajectory()
    for score in scores:
        trajectory = trajectory.after(score)
    return trajectory


def facts(*scores: float | None, **more: object) -> TerminationFacts:
    return TerminationFacts(trajectory=follow(*scores), **more)  # type: ignore[arg-type]


def verdict(tree: Mapping[str, object], given: TerminationFacts) -> str | None:
    condition = read_condition(tree)
    assert not isinstance(condition, tuple)
    found = check_termination(condition, given)
    return f"{found.outcome}/{found.reason}" if found else None


CONFIDENCE = {"type": "confidence", "threshold": 0.8, "min_iterations": 2}
TOOL = {"type": "tool_bound", "tool": "lint", "operator": "<=", "value": 3}
REVIEW = {"type": "evaluation_bound", "criteria": "good"}
MOMENT = {"type": "time_bound", "until": "2026-05-01T12:00:00Z"}


@pytest.mark.parametrize(
    ("tree", "given", "expected"),
    [
        pytest.param(CONFIDENCE, facts(0.9), None, id="confident too early"),
        pytest.param(CONFIDENCE, facts(0.1, 0.8), "accepted/quality_met", id="exactly confident"),
        pytest.param(CONFIDENCE, facts(0.9, 0.79), None, id="the newest score counts"),
        pytest.param(CONFIDENCE, facts(0.9, None), None, id="unscored is not confident"),
        pytest.param({"type": "max_iterations", "limit": 2}, facts(0.1), None, id="below limit"),
        pytest.param(
            {"type": "max_iterations", "limit": 2},
            facts(0.1, None),
            "best_effort/max_iterations",
            id="limit, failed ones count",
        ),
        pytest.param(
            {"type": "iteration_bound", "iterations": 1},
            facts(0.1),
            "best_effort/max_iterations",
            id="iteration bound",
        ),
        pytest.param(
            {"type": "timeout", "seconds": 5},
            facts(active_seconds=5.0),
            "deadline/active_time",
            id="active time, exactly",
        ),
        pytest.param(
            {"type": "timeout", "seconds": 5}, facts(wall_seconds=9.0), None, id="not wall"
        ),
        pytest.param(
            {"type": "timeout", "seconds": 5, "wall": True},
            facts(wall_seconds=5.0),
            "deadline/wall_time",
            id="wall time",
        ),
        pytest.param(
            {"type": "time_bound", "seconds": 5},
            facts(wall_seconds=5.0),
            "deadline/wall_time",
            id="time bound",
        ),
        pytest.param(MOMENT, facts(now=NOON), "deadline/wall_time", id="moment, exactly"),
        pytest.param(MOMENT, facts(now=NOON.replace(hour=11)), None, id="before the moment"),
        pytest.param(MOMENT, facts(), None, id="clock not given"),
        pytest.param(
            {"type": "no_improvement", "patience": 2},
            facts(0.5, 0.5, None),
            "best_effort/plateau",
            id="tie and failure are no improvement",
        ),
        pytest.param(
            {"type": "degradation"}, facts(0.5, 0.4, 0.3), "regressed/degradation", id="falling"
        ),
        pytest.param(
            {"type": "repeated_output"},
            facts(repeated=True),
            "best_effort/repeated_output",
            id="repeated",
        ),
        pytest.param(REVIEW, facts(approved=True), "accepted/approved", id="approved"),
        pytest.param(
            REVIEW, facts(approved=True, review_rounds=5), "accepted/approved", id="approved last"
        ),
        pytest.param(
            REVIEW, facts(review_rounds=5), "best_effort/max_iterations", id="review rounds"
        ),
        pytest.param(REVIEW, facts(approved=False, review_rounds=4), None, id="rejected"),
        pytest.param(
            {"type": "goal_bound", "max_iterations": 2},
            facts(0.1, goal_achieved=True),
            "accepted/goal_achieved",
            id="goal",
        ),
        pytest.param(
            {"type": "goal_bound", "max_iterations": 2},
            facts(0.1, 0.1, goal_achieved=False),
            "best_effort/max_iterations",
            id="goal not achieved",
        ),
        pytest.param(
            TOOL, facts(tool_outputs={"lint": " 3 errors"}), "accepted/completed", id="tool"
        ),
        pytest.param(TOOL, facts(tool_outputs={"lint": "4 errors"}), None, id="tool, too many"),
        pytest.param(TOOL, facts(tool_outputs={"lint": "no 3"}), None, id="tool without number"),
        pytest.param(TOOL, facts(), None, id="tool never ran"),
        pytest.param({"type": "manual"}, facts(0.9, 0.9, repeated=True), None, id="manual"),
    ],
)
def test_conditions(
    tree: Mapping[str, object], given: TerminationFacts, expected: str | None
) -> None:
    assert verdict(tree, given) == expected


LIMIT = {"type": "max_iterations", "limit": 1}
REPEATED = {"type": "repeated_output"}


@pytest.mark.parametrize(
    ("operator", "conditions", "expected"),
    [
        pytest.param("or", [REPEATED, LIMIT], "best_effort/repeated_output", id="first in order"),
        pytest.param("or", [LIMIT, REPEATED], "best_effort/max_iterations", id="other order"),
        pytest.param("or", [CONFIDENCE, LIMIT], "best_effort/max_iterations", id="first true one"),
        pytest.param("and", [CONFIDENCE, LIMIT], None, id="not all"),
        pytest.param("And", [LIMIT, REPEATED], "best_effort/max_iterations", id="first of all"),
    ],
)
def test_combined(operator: str, conditions: list[object], expected: str | None) -> None:
    tree = {"type": "combined", "operator": operator, "conditions": conditions}
    assert verdict(tree, facts(0.9, repeated=True)) == expected


def test_an_and_names_all_its_conditions() -> None:
    condition = read_condition(
        {"type": "combined", "operator": "and", "conditions": [LIMIT, REPEATED]}
    )
    assert not isinstance(condition, tuple)
    found = check_termination(condition, facts(0.9, repeated=True))
    assert found is not None
    assert "iterations are used up" in found.explanation
    assert "same output came back" in found.explanation


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12.0),
        ("  -3.5 rest", -3.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("+7%", 7.0),
        ("", None),
        ("x1", None),
        ("-", None),
        ("1e999", None),
    ],
)
def test_leading_number(text: str, number: float | None) -> None:
    assert leading_number(text) == number


LEAVES = st.sampled_from(
    [CONFIDENCE, LIMIT, REPEATED, TOOL, REVIEW, MOMENT, {"type": "degradation"}]
)
TREES = st.recursive(
    LEAVES,
    lambda children: st.fixed_dictionaries(
        {
            "type": st.just("combined"),
            "operator": st.sampled_from(["and", "or", "AND", "Or"]),
            "conditions": st.lists(children, min_size=1, max_size=3),
        }
    ),
    max_leaves=8,
)


@given(
    tree=TREES,
    scores=st.lists(st.none() | st.floats(0, 1), max_size=6),
    repeated=st.booleans(),
    output=st.text(max_size=10),
)
def test_every_tree_gives_a_verdict_of_the_table_or_none(
    tree: Mapping[str, object], scores: list[float | None], repeated: bool, output: str
) -> None:
    condition = read_condition(tree)
    assert not isinstance(condition, tuple)
    given = facts(*scores, repeated=repeated, tool_outputs={"lint": output})
    found = check_termination(condition, given)
    assert found is None or found.reason in REASONS[found.outcome]
