"""New limits for a budget that is in use."""

from collections.abc import Mapping

from pydantic import ValidationError

from perdure.domain.budget.accounting import (
    DIMENSIONS,
    SPLIT,
    Budget,
    BudgetLimits,
    plain_figure,
)
from perdure.domain.foundation.problems import problems_of, render_problems

BLOCK = "budget"


def with_amendments(
    limits: BudgetLimits, *, asked: BudgetLimits, kept: BudgetLimits
) -> BudgetLimits:
    """Limits with what people changed of them since.

    Args:
        limits: those of an earlier state, or of the start.
        asked: those of the task.
        kept: those of the task with all changes; where they are equal, nobody changed anything.
    """
    names = BudgetLimits.model_fields
    changed = {name for name in names if getattr(kept, name) != getattr(asked, name)}
    return limits.model_copy(update={name: getattr(kept, name) for name in changed})


def amend(budget: Budget, changes: Mapping[str, object], *, wall_time: float) -> Budget:
    """Set new limits; what `changes` does not name stays.

    Args:
        budget: limits, and what is spent.
        changes: new limits by name, as in the `budget:` block of a task.
        wall_time: seconds since the run began.

    Raises:
        ValueError: says of each wrong limit where it is, what was found and what is allowed, or
            which limit lies below what is spent.
    """
    given = {**budget.limits.model_dump(), **changes}
    try:
        limits = BudgetLimits.model_validate(given)
    except ValidationError as error:
        names = BudgetLimits.model_fields
        raise ValueError(
            render_problems(problems_of(error, given, root=BLOCK, names=names))
        ) from None
    for dimension in DIMENSIONS:
        limit = limits.limit(dimension)
        used = budget.spent.of(dimension, wall_time=wall_time)
        named = "cost_usd" if dimension == "cost" else dimension
        # Only what is changed: calls may have overspent another limit, which is no fault of this
        # message.
        if limit is not None and named in changes and limit < used:
            found, least = plain_figure(limit), plain_figure(used)
            raise ValueError(
                f"{BLOCK}.{named}: {found} is below the {least} already spent; set it higher, or "
                "stop the run"
            )
    return budget.model_copy(update={"limits": limits})


def beyond_share_refusal(
    limits: BudgetLimits, changes: Mapping[str, object], *, share: BudgetLimits, parent: str
) -> str | None:
    """Why a run below another may not have these limits; None if it may.

    It has a share of the budget above, which the run there has put aside. More would be spent
    beyond what was put aside, and so beyond the budget of the tree.

    Args:
        limits: those of now.
        changes: new limits that `amend` accepts.
        share: what the run began with.
        parent: the run that gave the share.
    """
    wanted = BudgetLimits.model_validate({**limits.model_dump(), **changes})
    for dimension in (*SPLIT, "cost"):
        named = "cost_usd" if dimension == "cost" else dimension
        most, asked = share.limit(dimension), wanted.limit(dimension)
        if named not in changes or most is None or (asked is not None and asked <= most):
            continue
        found = "no limit" if asked is None else plain_figure(asked)
        return (
            f"{BLOCK}.{named}: {found} is more than the {plain_figure(most)} that {parent} has put "
            f"aside for this run. Raise the limit of {parent}: runs that it starts from then on "
            "get more"
        )
    return None
