"""The most that one run of each arm may spend; the experiment reserves it before a run starts."""

from collections.abc import Sequence
from decimal import Decimal

from perdure.domain.budget.envelope import worst_cost
from perdure.domain.experiments.plan import Arm, Entry, Plan, trial_task
from perdure.domain.foundation.errors import InvalidInput, ModelUnavailable
from perdure.domain.llm.errors import ModelError
from perdure.domain.llm.usage import Usage
from perdure.domain.run.spec import ROLES
from perdure.domain.specs import RUN_SPEC, Spec
from perdure.interfaces.services import ModelProfiles


async def bounded(plan: Plan, first: Entry, models: ModelProfiles, *, default_model: str) -> Plan:
    """Add to each arm the most that one of its runs may cost, by its limits and prices.

    Raises:
        InvalidInput: the budget does not pay for one run of some arm.
    """
    arms = [await _bounded(arm, first, models, default_model) for arm in plan.arms]
    budget = plan.budget
    for arm in arms:
        if budget.cost_usd and arm.most_usd is not None and arm.most_usd > budget.cost_usd:
            raise InvalidInput(
                f"budget.cost_usd: found {budget.cost_usd}; one run of {arm.name} may spend "
                f"{arm.most_usd:.2f} USD.",
                cure="Raise it, or give the task a lower `budget: {cost_usd: …, tokens: …}`.",
            )
        if budget.tokens and arm.most_tokens is not None and arm.most_tokens > budget.tokens:
            raise InvalidInput(
                f"budget.tokens: found {budget.tokens}; one run of {arm.name} may use "
                f"{arm.most_tokens}.",
                cure="Raise it, or give the task a lower `budget: {tokens: …}`.",
            )
    return plan.model_copy(update={"arms": tuple(arms)})


async def _bounded(arm: Arm, first: Entry, models: ModelProfiles, default_model: str) -> Arm:
    spec = RUN_SPEC.validate_python(trial_task(arm, first, label="experiment"))
    limits = [arm.most_usd] if arm.most_usd else []
    dearest = await _all_written(spec, models, default_model)
    limits += [dearest] if dearest is not None else []
    return arm.model_copy(update={"most_usd": min(limits, default=None)})


async def _all_written(spec: Spec, models: ModelProfiles, default_model: str) -> Decimal | None:
    """The cost if the dearest model wrote all tokens of the limit; None without limit or price."""
    if not spec.budget.tokens:
        return None
    usage, costs = Usage(output_tokens=spec.budget.tokens), list[Decimal]()
    for name in _named(spec, default_model):
        try:
            price = (await models.card(name)).price
        except (InvalidInput, ModelError, ModelUnavailable):
            return None
        if price is None:
            return None
        costs.append(worst_cost(price, usage))
    return max(costs)


def _named(spec: Spec, default_model: str) -> Sequence[str]:
    named = [name for role in ROLES for name in spec.models.chain(role)]
    return tuple(dict.fromkeys([*named, *(spec.models.chain("executor") or (default_model,))]))
