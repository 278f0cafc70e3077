"""Limits of a definition as a run has them."""

from datetime import UTC, datetime, timedelta

import pytest
from condition_trees import read_condition

from perdure.domain.budget.accounting import MAX_ITERATIONS, BudgetLimits
from perdure.domain.evaluation.check_termination import Clocks, clocks, limits_with
from perdure.domain.evaluation.termination_conditions import Condition
from perdure.domain.roles.spec import compares_outputs, round_limit, with_rounds

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def condition(fields: object) -> Condition:
    read = read_condition(fields)
    assert not isinstance(read, tuple)
    return read


SECONDS = {"type": "time_bound", "seconds": 60}
REVIEWED = {"type": "evaluation_bound", "criteria": "c", "max_review_rounds": 4}
GOAL = {"type": "goal_bound", "max_iterations": 6}


def joined(operator: str, *conditions: object) -> dict[str, object]:
    return {"type": "combined", "operator": operator, "conditions": list(conditions)}


@pytest.mark.parametrize(
    ("fields", "rounds", "expected"),
    [
        (REVIEWED, None, 4),
        (REVIEWED, 2, 2),
        (REVIEWED, 9, 9),
        (GOAL, None, 6),
        ({"type": "iteration_bound", "iterations": 3}, None, 3),
        ({"type": "manual"}, None, MAX_ITERATIONS),
        ({"type": "manual"}, 5, 5),
        (SECONDS, 5, 5),
        (joined("or", REVIEWED, GOAL), None, 4),
        (joined("and", REVIEWED, GOAL), None, 6),
        (joined("and", REVIEWED, SECONDS), None, MAX_ITERATIONS),
        (joined("or", REVIEWED, SECONDS), 7, 7),
    ],
)
def test_a_given_limit_replaces_the_definitions(
    fields: object, rounds: int | None, expected: int
) -> None:
    tree = condition(fields)
    assert round_limit(with_rounds(tree, rounds), rounds) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (SECONDS, Clocks(wall=60)),
        ({**SECONDS, "wall": False}, Clocks(active=60)),
        ({"type": "timeout", "seconds": 30}, Clocks(active=30)),
        (joined("or", SECONDS, {"type": "timeout", "seconds": 9, "wall": True}), Clocks(wall=9)),
        (joined("and", SECONDS, REVIEWED), Clocks()),
        ({"type": "time_bound", "until": (NOW + timedelta(seconds=5)).isoformat()}, Clocks(wall=5)),
        (
            {"type": "time_bound", "until": (NOW - timedelta(days=1)).isoformat()},
            Clocks(wall=0.001),
        ),
        (REVIEWED, Clocks()),
    ],
)
def test_time_limits_are_clocks_where_they_end_the_run_alone(
    fields: object, expected: Clocks
) -> None:
    assert clocks(condition(fields), started_at=NOW) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"type": "repeated_output"}, True),
        (joined("or", REVIEWED, joined("and", SECONDS, {"type": "repeated_output"})), True),
        (joined("or", REVIEWED, SECONDS), False),
    ],
)
def test_outputs_are_compared_where_a_condition_asks_for_it(fields: object, expected: bool) -> None:
    assert compares_outputs(condition(fields)) is expected


@pytest.mark.parametrize(("own", "expected"), [(None, 60), (10, 10), (100, 60), (0, 60)])
def test_of_two_limits_on_one_clock_the_lower_counts(own: float | None, expected: float) -> None:
    limits = limits_with(BudgetLimits(wall_time=own), condition(SECONDS), started_at=NOW)
    assert limits.wall_time == expected
