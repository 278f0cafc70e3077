"""What an agent run says of its end."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from perdure.domain.agent.result import agent_result
from perdure.domain.agent.state import AgentState
from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.evaluation.outcomes import Outcome
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.turns.settings import AgentSettings, resolve


@dataclass(frozen=True)
class Ended:
    """How the turns ended."""

    outcome: Outcome
    reason: str
    text: BlobRef | None
    fallback: bool = False
    truncated: bool = False
    partial: bool = False
    detail: str = ""


@pytest.mark.parametrize(
    ("outcome", "reason", "with_text", "without"),
    [
        (
            "stopped", "stopped",
            "The run was stopped; this is the best result so far.",
            "The run was stopped; there is nothing to show yet.",
        ),
        (
            "deadline", "wall_time",
            "The time limit passed; this is the best result so far.",
            "The time limit passed; there is nothing to show yet.",
        ),
        ("failed", "refusal", "The model refused the task.", "The model refused the task."),
    ],
)  # fmt: skip
def test_no_result_is_spoken_of_that_is_not_there(
    outcome: Outcome, reason: str, with_text: str, without: str
) -> None:
    for text, told in ((BlobRef(hash="sha256:x"), with_text), (None, without)):
        state = AgentState(
            budget=Budget(limits=BudgetLimits()), started_at=datetime(2026, 1, 1, tzinfo=UTC)
        )
        result = agent_result(
            state,
            run="r",
            turns=resolve(AgentSettings()),
            end=Ended(outcome=outcome, reason=reason, text=text),
            wall_time=1.0,
            tree=None,
        )
        assert result.explanation == told
