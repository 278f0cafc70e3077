"""The table after the last stage: the order of its rows, and that any script of verdicts ends."""

import pytest
from condition_trees import read_condition
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.termination_conditions import Combined, Condition
from perdure.domain.roles.spec import with_rounds
from perdure.domain.roles.stop_rules import RoleFacts, decide


def condition(**fields: object) -> Condition:
    read = read_condition(fields)
    assert not isinstance(read, tuple)
    return read


REVIEWED = condition(type="evaluation_bound", criteria="works", max_review_rounds=3)
GOAL = condition(type="goal_bound", max_iterations=3)
ROUNDS = condition(type="iteration_bound", iterations=3)
MANUAL = condition(type="manual")
TOOL = condition(type="tool_bound", tool="tests.failed", operator="==", value=0)
EITHER = Combined(type="combined", operator="or", conditions=(ROUNDS, REVIEWED))
BOTH = Combined(type="combined", operator="and", conditions=(REVIEWED, GOAL))
REPEATED = condition(type="repeated_output")
SAME_OR_REVIEWED = Combined(type="combined", operator="or", conditions=(REPEATED, REVIEWED))
SPENT = ("tokens", "10 of 10")
LATE = ("wall_time", "9 of 9 s")


@pytest.mark.parametrize(
    ("facts", "row", "outcome", "reason"),
    [
        pytest.param(
            RoleFacts(condition=REVIEWED, failure="x", exhausted=SPENT, out_of_time=LATE),
            "stage_failed",
            "failed",
            "stage_failed",
            id="a failed stage comes first",
        ),
        pytest.param(
            RoleFacts(condition=REVIEWED, exhausted=SPENT, out_of_time=LATE, approved=True),
            "budget",
            "out_of_budget",
            "tokens",
            id="then a spent budget",
        ),
        pytest.param(
            RoleFacts(condition=REVIEWED, out_of_time=LATE, approved=True),
            "deadline",
            "deadline",
            "wall_time",
            id="then a spent time",
        ),
        pytest.param(
            RoleFacts(condition=REVIEWED, approved=True, rejections=3, completed=3),
            "success",
            "accepted",
            "approved",
            id="approved on the last permitted round",
        ),
        pytest.param(
            RoleFacts(condition=GOAL, achieved=True, completed=3),
            "success",
            "accepted",
            "goal_achieved",
            id="achieved on the last permitted round",
        ),
        pytest.param(
            RoleFacts(condition=EITHER, approved=True, completed=3),
            "success",
            "accepted",
            "approved",
            id="success before a limit of the same tree",
        ),
        pytest.param(
            RoleFacts(condition=BOTH, approved=True, achieved=False, completed=1),
            "next",
            None,
            None,
            id="both are needed",
        ),
        pytest.param(
            RoleFacts(condition=BOTH, approved=True, achieved=True, completed=1),
            "success",
            "accepted",
            "approved",
            id="both are there",
        ),
        pytest.param(
            RoleFacts(condition=REVIEWED, approved=False, rejections=3, completed=3),
            "rework",
            None,
            None,
            id="rework is asked about before the limit ends it",
        ),
        pytest.param(
            RoleFacts(condition=REVIEWED, approved=False, rejections=2, completed=3),
            "condition",
            "best_effort",
            "max_iterations",
            id="the limit",
        ),
        pytest.param(
            RoleFacts(condition=REVIEWED, approved=None, completed=2),
            "next",
            None,
            None,
            id="unclear continues",
        ),
        pytest.param(
            RoleFacts(condition=TOOL, tool_outputs={"tests.failed": "0"}),
            "success",
            "accepted",
            "completed",
            id="a tool's number",
        ),
        pytest.param(
            RoleFacts(condition=MANUAL, completed=7, limit=7),
            "round_limit",
            "best_effort",
            "max_iterations",
            id="the run's own limit on a loop without one",
        ),
        pytest.param(
            RoleFacts(condition=MANUAL, completed=7), "next", None, None, id="manual goes on"
        ),
        pytest.param(
            RoleFacts(condition=REPEATED, repeated=True),
            "condition",
            "best_effort",
            "repeated_output",
            id="the same output again",
        ),
        pytest.param(RoleFacts(condition=REPEATED), "next", None, None, id="another output"),
        pytest.param(
            RoleFacts(condition=SAME_OR_REVIEWED, repeated=True, approved=True),
            "success",
            "accepted",
            "approved",
            id="an approval before a repetition that comes first in the list",
        ),
    ],
)
def test_the_first_true_row_rules(
    facts: RoleFacts, row: str, outcome: str | None, reason: str | None
) -> None:
    decision = decide(facts)
    assert (decision.row, decision.outcome, decision.reason) == (row, outcome, reason)
    assert decision.explanation.endswith(".")
    assert decision.ends == (outcome is not None)


@given(
    verdicts=st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=40),
    limit=st.integers(min_value=1, max_value=10),
    rework=st.integers(min_value=1, max_value=5),
)
def test_any_script_of_verdicts_ends_at_the_latest_by_the_limit(
    verdicts: list[bool | None], limit: int, rework: int
) -> None:
    tree = with_rounds(REVIEWED, limit)
    rejections = 0
    for completed, approved in enumerate((verdicts * limit)[:limit], start=1):
        rejections = {True: 0, False: rejections + 1, None: rejections}[approved]
        facts = RoleFacts(
            condition=tree,
            approved=approved,
            rejections=rejections,
            rework_limit=rework,
            completed=completed,
        )
        decision = decide(facts)
        if approved:
            assert decision.outcome == "accepted"
            return
        if decision.row == "rework":
            assert approved is not True
            assert rejections >= rework
            return
        if decision.ends:
            assert completed == limit
            assert decision.outcome == "best_effort"
            return
    pytest.fail("the loop did not end")
