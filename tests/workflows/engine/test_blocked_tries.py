"""What a stage did before it was blocked counts, also when a person has it begin anew."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio import workflow

from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.roles.state import RoleState
from perdure.domain.turns.repeated_tool_calls import ToolCounters
from perdure.domain.turns.turn import TurnState
from perdure.workflows.role_parts.stages import Stages

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("patched", "used", "numbers"),
    [
        pytest.param(True, {"read": 3, "count": 1}, {"count": 7.0}, id="both tries"),
        pytest.param(False, {"read": 1}, {}, id="a run from before"),
    ],
)
async def test_the_tools_of_a_blocked_try_count(
    patched: bool,
    used: dict[str, int],
    numbers: dict[str, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: patched)
    state = RoleState(started_at=NOW, budget=Budget(limits=BudgetLimits()), tools_used={"read": 1})
    tallies = ToolCounters(used={"read": 2, "count": 1}, numbers={"count": 7.0})
    state.turn = TurnState(tallies=tallies)
    stages: Any = object.__new__(Stages)
    stages.run = SimpleNamespace(state=state)

    def begin(_: object) -> None:
        state.turn = TurnState()

    stages._begin_stage = begin
    assert await stages._unblocked(None, True, "access is there")
    assert (state.tools_used, state.numbers, state.attempt) == (used, numbers, 2)
