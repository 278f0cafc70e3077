"""How the share of a stage is counted, without a server."""

from datetime import UTC, datetime

import pytest
from temporalio import workflow

from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.roles.state import RoleState
from perdure.workflows.role_parts.run import RoleRun

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("reads", "patched", "counted"),
    [(True, True, True), (True, False, False), (False, True, False)],
    ids=["as the budget does", "a run from before", "not in this budget"],
)
def test_shares_count_cache_reads_as_the_budget_does(
    reads: bool, patched: bool, counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: patched)
    run = object.__new__(RoleRun)
    limits = BudgetLimits(count_cache_reads=reads)
    run.state = RoleState(started_at=NOW, budget=Budget(limits=limits))
    assert run.counts_cache_reads is counted
