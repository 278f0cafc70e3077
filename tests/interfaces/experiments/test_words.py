"""Words about an experiment that stand the same at every door."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from perdure.domain.experiments.plan import ExperimentBudget
from perdure.domain.experiments.status import ExperimentStatus
from perdure.interfaces.experiments.words import resume_command

AT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("reason", "budget", "words"),
    [
        ("stopped", ExperimentBudget(cost_usd=Decimal(1)), "perdure experiment resume e"),
        (
            "budget",
            ExperimentBudget(cost_usd=Decimal(1)),
            "perdure experiment resume e --cost-usd USD",
        ),
        ("budget", ExperimentBudget(tokens=9), "perdure experiment resume e --tokens N"),
    ],
)
def test_one_that_was_cut_short_says_how_to_go_on(
    reason: str, budget: ExperimentBudget, words: str
) -> None:
    status = ExperimentStatus(
        id="e", name="n", state="ended", reason=reason, arms=("loop",), inputs=2, repeats=1,
        trials=2, ended=1, budget=budget, created_at=AT,
    )  # fmt: skip
    assert status.cut_short
    assert not status.model_copy(update={"ended": 2}).cut_short
    assert not status.model_copy(update={"state": "running"}).cut_short
    assert resume_command(status) == words
