"""Termination trees as data: what is refused, with which path, and what a tree promises."""

from collections.abc import Mapping

import pytest
from condition_trees import read_condition
from dirty_equals import IsPartialDict

from perdure.domain.evaluation.termination_conditions import (
    Combined,
    Timeout,
    certain_limit,
    largest_limit,
    success_threshold,
)

CONFIDENT = {"type": "confidence", "threshold": 0.9}
THREE = {"type": "max_iterations", "limit": 3}


def either(*conditions: Mapping[str, object]) -> Mapping[str, object]:
    return {"type": "combined", "operator": "or", "conditions": list(conditions)}


def both(*conditions: Mapping[str, object]) -> Mapping[str, object]:
    return {"type": "combined", "operator": "AND", "conditions": list(conditions)}


@pytest.mark.parametrize(
    ("value", "path", "allowed"),
    [
        pytest.param({}, "termination.type", "says what this is", id="no type"),
        pytest.param({"type": "confidenc"}, "termination.type", "one of", id="unknown type"),
        pytest.param(either(), "termination.conditions", "at least one", id="empty combined"),
        pytest.param({**both(THREE), "operator": "xor"}, "termination.operator", "or", id="xor"),
        pytest.param({**CONFIDENT, "threshold": 0}, "termination.threshold", "more", id="zero"),
        pytest.param(
            either(THREE, {**CONFIDENT, "threshold": 1.01}),
            "termination.conditions[1].threshold",
            "at most 1",
            id="threshold above 1, nested",
        ),
        pytest.param(
            either(either({"type": "degradation", "window": 1})),
            "termination.conditions[0].conditions[0].window",
            "at least 2",
            id="window of one",
        ),
        pytest.param({"type": "timeout"}, "termination.seconds", "required", id="no seconds"),
        pytest.param(
            {"type": "timeout", "seconds": 1, "duration_ms": 1},
            "termination",
            "not both",
            id="seconds and milliseconds",
        ),
        pytest.param(
            either(THREE, {"type": "timeout", "duration_ms": 10**400}),
            "termination.conditions[1]",
            "at most 315,360,000,000",
            id="milliseconds that no float holds",
        ),
        pytest.param({"type": "time_bound"}, "termination", "exactly one", id="time bound of none"),
        pytest.param(
            {"type": "time_bound", "until": "2026-05-01T12:00:00"},
            "termination.until",
            "time zone",
            id="moment without an offset",
        ),
        pytest.param(
            {"type": "tool_bound", "tool": "t", "operator": "~", "value": 1},
            "termination.operator",
            "<=",
            id="unknown comparison",
        ),
    ],
)
def test_refused(value: object, path: str, allowed: str) -> None:
    problems = read_condition(value)
    assert isinstance(problems, tuple)
    assert len(problems) == 1
    assert problems[0].path == path
    assert allowed in problems[0].allowed


def test_all_problems_are_told_at_once_and_typos_are_named() -> None:
    problems = read_condition(
        either({"type": "confidenc"}, {"type": "no_improvement", "patince": 2})
    )
    assert isinstance(problems, tuple)
    assert [(problem.path, problem.nearest) for problem in problems] == [
        ("termination.conditions[0].type", "confidence"),
        ("termination.conditions[1].patience", None),
        ("termination.conditions[1].patince", "patience"),
    ]


def test_milliseconds_and_upper_case_are_read() -> None:
    read = read_condition(both({"type": "timeout", "duration_ms": 1500}, THREE))
    assert isinstance(read, Combined)
    assert read.operator == "and"
    assert read.conditions[0] == Timeout(type="timeout", seconds=1.5)
    assert read.model_dump() == IsPartialDict(type="combined")
    assert read_condition(read.model_dump()) == read


@pytest.mark.parametrize(
    ("tree", "threshold", "limit"),
    [
        pytest.param(CONFIDENT, 0.9, 1, id="confidence"),
        pytest.param(THREE, None, 3, id="limit"),
        pytest.param(either(CONFIDENT, THREE), 0.9, 3, id="either"),
        pytest.param(both(CONFIDENT, THREE), 0.9, 3, id="both wait for the score"),
        pytest.param(either(CONFIDENT, {**CONFIDENT, "threshold": 0.7}), 0.7, 1, id="smallest"),
        pytest.param(either({"type": "timeout", "seconds": 5}), None, 0, id="time"),
        pytest.param({"type": "goal_bound", "max_iterations": 10}, None, 10, id="goal"),
        pytest.param({"type": "no_improvement", "patience": 2}, None, 0, id="plateau"),
    ],
)
def test_promises(tree: Mapping[str, object], threshold: float | None, limit: int) -> None:
    read = read_condition(tree)
    assert not isinstance(read, tuple)
    assert success_threshold(read) == threshold
    assert largest_limit(read) == limit


@pytest.mark.parametrize(
    ("tree", "limit"),
    [
        pytest.param({"type": "max_iterations", "limit": 3}, 3, id="a limit"),
        pytest.param({"type": "goal_bound", "max_iterations": 4}, 4, id="a goal"),
        pytest.param({"type": "confidence", "threshold": 0.8}, None, id="none"),
        pytest.param(
            either(
                {"type": "iteration_bound", "iterations": 4}, {"type": "max_iterations", "limit": 3}
            ),
            3,
            id="the first of several",
        ),
        pytest.param(
            either(
                {"type": "no_improvement", "patience": 2}, {"type": "max_iterations", "limit": 3}
            ),
            3,
            id="beside others",
        ),
        pytest.param(
            {
                "type": "combined",
                "operator": "and",
                "conditions": [
                    {"type": "max_iterations", "limit": 3},
                    {"type": "iteration_bound", "iterations": 5},
                ],
            },
            5,
            id="the last of both",
        ),
        pytest.param(
            {
                "type": "combined",
                "operator": "and",
                "conditions": [
                    {"type": "max_iterations", "limit": 3},
                    {"type": "confidence", "threshold": 0.8},
                ],
            },
            None,
            id="with what may never come",
        ),
    ],
)
def test_the_certain_limit(tree: Mapping[str, object], limit: int | None) -> None:
    read = read_condition(tree)
    assert not isinstance(read, tuple)
    assert certain_limit(read) == limit
