"""Why a message about the budget would not let a run go on, or may not change a share of it."""

from perdure.domain.budget import envelope as budgets
from perdure.domain.budget.amend import beyond_share
from perdure.domain.budget.envelope import Budget, BudgetLimits
from perdure.domain.run import gates as gating
from perdure.domain.run.control import Control, gate_named
from perdure.domain.run.messages import Amend, Answer, AnyMessage


def raise_refusal(
    state: Control, message: AnyMessage, *, budget: Budget, wall_time: float
) -> str | None:
    """Why an answer `raise` would not let the run go on, with the cure; None for all else.

    The answer alone makes no room: it takes a limit that was amended since the question, above
    what is spent.
    """
    if not isinstance(message, Answer) or message.choice != gating.RAISE:
        return None
    gate = gate_named(state, message.gate)
    if gate is None or gate.kind != "budget":
        return None
    spent = budgets.exhausted(budget, wall_time=wall_time, within_iteration=gate.within_iteration)
    # `>=` below: all that happens in one workflow task has the same time.
    if spent is None and any(
        "budget" in one.changes and one.at >= gate.opened_at for one in state.amendments
    ):
        return None
    found = f"the budget is spent ({spent.text})" if spent else "no limit was raised since it asked"
    named = "cost_usd" if spent and spent.dimension == "cost" else spent and spent.dimension
    return (
        f"gate {gate.name}: {found}. Raise the limit first: "
        f"`perdure amend RUN --budget {named or 'tokens'}=…`, or `amend` with `budget`"
    )


def share_refusal(
    message: AnyMessage, *, budget: Budget, share: BudgetLimits, parent: str | None
) -> str | None:
    """Why a run below another may not have the limits that it is sent; None for all else."""
    if parent is None or not isinstance(message, Amend) or not message.budget:
        return None
    return beyond_share(budget.limits, message.budget, share=share, parent=parent)


def late_refusal(message: AnyMessage, *, deadline_passed: bool) -> str | None:
    """Why more time comes too late for a run whose time limit has passed; None for all else."""
    if not deadline_passed or not isinstance(message, Amend) or not message.budget:
        return None
    if "wall_time" not in message.budget:
        return None
    return "budget.wall_time: the time limit has passed, and the run is ending with its best result"
