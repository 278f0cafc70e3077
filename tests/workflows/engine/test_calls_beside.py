"""Model calls side by side: of their time the longest counts."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.workflows.engine.calls_beside import CallsBeside
from perdure.workflows.engine.run import AnyRun


class FakeRun:
    """A run that takes a changed budget."""

    def __init__(self) -> None:
        self.state = SimpleNamespace(budget=Budget(limits=BudgetLimits()))

    def apply_budget(self, budget: Budget) -> None:
        self.state.budget = budget


@pytest.mark.parametrize(
    ("branches", "known", "counted"),
    [
        pytest.param([[3.0], [5.0]], True, 5.0, id="the longest"),
        pytest.param([[3.0, 4.0], [5.0]], True, 7.0, id="one that is asked again"),
        pytest.param([[], []], True, 0.0, id="no calls"),
        pytest.param([[3.0, 4.0]], True, 7.0, id="one alone"),
        pytest.param([[3.0], [5.0]], False, 8.0, id="as before this version"),
    ],
)
async def test_of_calls_side_by_side_the_longest_counts(
    monkeypatch: pytest.MonkeyPatch, branches: list[list[float]], known: bool, counted: float
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: known)
    run = FakeRun()
    beside = CallsBeside(cast("AnyRun", run))

    async def branch(calls: list[float]) -> int:
        for seconds in calls:
            await asyncio.sleep(0)
            run.apply_budget(beside.worked(run.state.budget, seconds))
        return len(calls)

    assert await beside.all_of([branch(calls) for calls in branches]) == list(map(len, branches))
    assert run.state.budget.spent.active_time == counted
    run.apply_budget(beside.worked(run.state.budget, 1.0))
    assert run.state.budget.spent.active_time == counted + 1.0, "a call after them counts at once"
