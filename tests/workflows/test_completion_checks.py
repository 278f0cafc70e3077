"""What a completion check makes of a look that was cut short."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.delegation.decisions import Complete
from perdure.domain.delegation.messages import InspectReport
from perdure.domain.delegation.next_step import End
from perdure.domain.delegation.spec import DelegationSettings
from perdure.domain.delegation.state import DelegationState
from perdure.workflows.delegation_parts.completion_checks import CompletionChecks
from perdure.workflows.delegation_parts.run import DelegationRun
from perdure.workflows.delegation_parts.work_reviews import WorkReviews
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.step_runner import Completed

SHAPED = DelegationSettings(output_schema={"type": "object", "required": ["total"]})
COMPLETE = Complete(decision="complete", reason="done", final_result="no JSON", confidence=0.9)


class Looks:
    """Steps that bring one report, whatever they look at."""

    def __init__(self, report: InspectReport) -> None:
        self.done = Completed(report)

    async def workspace_step(self, *_: object, **__: object) -> Completed[InspectReport]:
        return self.done


async def outcome_of(report: InspectReport) -> str | None:
    """How the run ends after its manager said that it is done; None if it goes on."""
    run = SimpleNamespace(
        id="d",
        spec=SimpleNamespace(delegation=SHAPED, goal="Add it up.", rubric=None),
        state=DelegationState(
            started_at=datetime(2026, 1, 1, tzinfo=UTC), budget=Budget(limits=BudgetLimits())
        ),
        active_time_left=0.0,
        budget_phase="normal",
    )
    for told in ("set_phase", "record_event", "apply_budget"):
        setattr(run, told, lambda *_, **__: None)
    engine = cast(Engine, SimpleNamespace(retries=Looks(report)))
    checks = CompletionChecks(cast(DelegationRun, run), engine, cast(WorkReviews, None))
    following = await checks.check(COMPLETE)
    return following.verdict.outcome if isinstance(following, End) else None


@pytest.mark.parametrize(
    ("patched", "report", "outcome"),
    [
        (True, InspectReport(), None),
        (True, InspectReport(contract=("total: is missing",)), None),
        (True, InspectReport(contract=()), "accepted"),
        (False, InspectReport(), "accepted"),
    ],
    ids=["cut short", "misses it", "fits it", "cut short in a history of before"],
)
async def test_a_schema_is_met_only_if_it_was_looked_at(
    patched: bool, report: InspectReport, outcome: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: patched)
    assert await outcome_of(report) == outcome
