"""The specification of a delegation run."""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BeforeValidator

from perdure.domain.budget.envelope import BudgetLimits
from perdure.domain.delegation.settings import DelegationSettings
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.run.spec import CommonSpec

_TREE_LIMITS: dict[str, object] = {
    "tokens": 10_000_000,
    "cost_usd": Decimal("20.00"),
    "tool_calls": 1_500,
    "workers": 500,
    "active_time": 3_600.0,
}


def _of_a_tree(value: object) -> object:
    """A manager and its workers cost more than one conversation: other limits where none are."""
    return {**_TREE_LIMITS, **value} if isinstance(value, dict) else value


class DelegationSpec(CommonSpec):
    """A manager that gives work to workers until the task is complete.

    `rubric` scores the final deliverable; without one the reviewers' mean does.
    """

    kind: Literal["delegation"]
    budget: Annotated[BudgetLimits, BeforeValidator(_of_a_tree)] = BudgetLimits.model_validate(
        _TREE_LIMITS
    )
    rubric: Rubric | None = None
    delegation: DelegationSettings = DelegationSettings()
