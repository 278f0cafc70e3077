"""What stands in the record of a stage that is a loop: the spend of its child run."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.roles.definition import RoleDefinition
from perdure.domain.roles.iteration_rules import stage_record
from perdure.domain.roles.nested_loops import record_of_child
from perdure.domain.roles.state import RoleState
from perdure.domain.run.result import SpendReport
from perdure.domain.turns.turn import TurnState


@pytest.mark.parametrize("cost", [Decimal("0.25"), None])
def test_the_spend_of_a_loop_is_that_of_its_stage(cost: Decimal | None) -> None:
    spend = SpendReport(
        tokens=180_000, cost_usd=cost, model_calls=7, tool_calls=3, active_time_s=42.5
    )
    state = RoleState(
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        budget=Budget(limits=BudgetLimits()),
        turn=TurnState(record=record_of_child(2, spend)),
    )
    role = RoleDefinition.model_validate({"name": "build", "prompt": "Build.", "loop": "team"})
    stage = stage_record(state, role, status="completed", count_cache_reads=False)
    assert (stage.tokens, stage.cost_usd) == (spend.tokens, cost)
    assert (stage.model_calls, stage.tool_calls) == (spend.model_calls, spend.tool_calls)
    assert stage.duration_s == spend.active_time_s
