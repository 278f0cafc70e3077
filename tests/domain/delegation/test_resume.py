"""What a fork or a retry of a delegation takes over from the state of before, and what not."""

from datetime import UTC, datetime

import pytest

from perdure.domain.budget.accounting import Budget, Spend
from perdure.domain.delegation.progress import ManagerProgress
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.delegation.state import (
    CurrentIteration,
    DelegationState,
    between_decisions,
    delegation_fork,
)
from perdure.domain.generated_tools.tool_registry import PinnedTool, Toolbox, WantedTool
from perdure.domain.run.result import Origin
from perdure.domain.turns.records import IterationRecord

NOW = datetime(2026, 1, 2, tzinfo=UTC)
GIVEN = {"text.given": "a" * 64}
SPEC = DelegationSpec.model_validate(
    {"kind": "delegation", "goal": "g", "tools": {"access": "readonly", "generated": GIVEN}}
)


def _ended(toolbox: Toolbox, **more: object) -> DelegationState:
    state = DelegationState.model_validate(
        {"started_at": NOW, "budget": Budget(limits=SPEC.budget), "toolbox": toolbox, **more}
    )
    return between_decisions(state, ended=True)


def _fork(state: DelegationState) -> DelegationState:
    return delegation_fork(state, SPEC, before=SPEC, now=NOW, origin=Origin(run="old", iteration=1))


def test_a_fork_has_the_tools_of_its_task_and_makes_the_others_again() -> None:
    made = PinnedTool(hash="b" * 64, worker="w1")
    before = (
        Toolbox.given(GIVEN)
        .with_begun_draft("0" * 64)
        .with_tool("text.count", made, cached=False, repaired=False)
    )
    asked = WantedTool(worker="w2", draft="c" * 64)
    fork = _fork(
        _ended(
            before.with_handled_draft("d" * 64), wanted=[asked], tools_created=["text.of_a_team"]
        )
    )
    assert fork.toolbox == Toolbox.given(GIVEN)
    assert (fork.tools_created, fork.wanted) == ([], [asked])


@pytest.mark.parametrize(
    ("begun", "ended", "iteration", "spent"),
    [(True, False, 1, 1), (False, False, 2, 2), (True, True, 2, 2)],
    ids=["the next one has begun", "between two", "at the end"],
)
def test_a_fork_has_all_decisions_that_its_origin_did_not_make(
    begun: bool, ended: bool, iteration: int, spent: int
) -> None:
    state = DelegationState(
        started_at=NOW,
        budget=Budget(limits=SPEC.budget, spent=Spend(iterations=2)),
        course=ManagerProgress(iteration=2),
        turnover=CurrentIteration(
            began=Spend(iterations=1), record=IterationRecord(index=2) if begun else None
        ),
    )
    kept = between_decisions(state, ended=ended)
    assert (kept.course.iteration, kept.budget.spent.iterations) == (iteration, spent)
    assert _fork(kept).course.iteration == iteration
