"""The most that one run of each arm may spend; the experiment reserves it before a run starts."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from perdure.domain.budget.accounting import worst_cost
from perdure.domain.evaluation.rubric import Rubric, unknown_checks
from perdure.domain.experiments.plan import (
    Arm,
    Entry,
    Plan,
    differing,
    highest,
    trial_task,
)
from perdure.domain.foundation.errors import InvalidInput, ModelUnavailable
from perdure.domain.llm.errors import ModelError
from perdure.domain.llm.requests import Price
from perdure.domain.llm.usage import Usage
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.run.spec import ModelsSpec
from perdure.domain.specs import RUN_SPEC, Spec
from perdure.interfaces.plan import chains_of
from perdure.interfaces.services import ModelProfiles

Check = Callable[[Spec], Awaitable[Spec]]
"""The task as it would run, with the stages of the loop that it names."""


async def bounded(
    plan: Plan, entries: Sequence[Entry], models: ModelProfiles, *, check: Check, default_model: str
) -> Plan:
    """Add to each arm and to the judge what a run may cost, by its limits and prices.

    Raises:
        InvalidInput: the budget does not pay for one run of some arm, its loop cannot run here, or
            nobody has the check that scores.
    """
    prices = _Prices(models, default_model)
    scoring = plan.scoring
    await _require_checks(scoring.rubric, check, default_model)
    if scoring.judge is not None:
        budget = scoring.judge.budget
        most = await prices.most_usd([scoring.judge.model], budget.cost_usd, budget.tokens)
        judge = scoring.judge.model_copy(update={"most_usd": most})
        scoring = scoring.model_copy(update={"judge": judge})
    arms = tuple([await _bounded(arm, entries, prices, check) for arm in plan.arms])
    whole = plan.model_copy(update={"arms": arms, "scoring": scoring})
    with_judge = " with its judge" if scoring.judge is not None else ""
    for arm in arms:
        budget, held = plan.budget, whole.held(arm)
        if budget.cost_usd and held.cost_usd is not None and held.cost_usd > budget.cost_usd:
            raise InvalidInput(
                f"budget.cost_usd: found {budget.cost_usd}; one run of {arm.name}{with_judge} may "
                f"spend {held.cost_usd:.2f} USD.",
                cure="Raise it, or give the task a lower `budget: {cost_usd: …, tokens: …}`.",
            )
        if budget.tokens and held.tokens is not None and held.tokens > budget.tokens:
            raise InvalidInput(
                f"budget.tokens: found {budget.tokens}; one run of {arm.name}{with_judge} may use "
                f"{held.tokens}.",
                cure="Raise it, or give the task a lower `budget: {tokens: …}`.",
            )
    return whole


async def _require_checks(rubric: Rubric | None, check: Check, default_model: str) -> None:
    """Refuse a score by a check that neither this installation nor its workers have.

    Without it every run would be paid for, and no output scored.
    """
    # Only checks of plugins can be missing; for others nobody has to be asked.
    if rubric is None or not unknown_checks(rubric, ()):
        return
    models = ModelsSpec(executor=default_model)
    try:
        await check(RefineSpec(kind="refine", goal="score", rubric=rubric, models=models))
    except InvalidInput as error:
        # Its model is none of the experiment's, so what is said of that does not count.
        wrong = [words for path, words in error.problems if path.startswith("rubric")]
        if wrong:
            raise InvalidInput(f"score: {'; '.join(wrong)}", cure=error.cure) from None


async def check_added(
    plan: Plan, entries: Sequence[Entry], models: ModelProfiles, *, check: Check, default_model: str
) -> None:
    """Check inputs that are added to an experiment, whose arms are bounded already.

    Raises:
        InvalidInput: a run over one of them might spend more than is set aside for it.
    """
    prices = _Prices(models, default_model)
    # Also one that sets nothing: all inputs of the start may set lower limits than the task has.
    for entry in differing(entries):
        for arm in plan.arms:
            spec = await _spec(arm, entry, check)
            usd, tokens = await prices.most_of(spec), spec.budget.tokens or None
            for name, found, most in (
                ("cost_usd", usd, arm.most_usd),
                ("tokens", tokens, arm.most_tokens),
            ):
                if most is None or (found is not None and found <= most):
                    continue
                raise InvalidInput(
                    f"inputs.{entry.name}: found {'no limit' if found is None else found} for "
                    f"{name} of a run of {arm.name}; the experiment sets aside {most}.",
                    cure=f"Give it `budget: {{{name}: {most}}}` in its `set`, or start another "
                    "experiment.",
                )


async def _bounded(arm: Arm, entries: Sequence[Entry], prices: "_Prices", check: Check) -> Arm:
    # Inputs that change nothing but texts have the bounds of the first.
    specs = [await _spec(arm, entry, check) for entry in differing(entries)]
    return arm.model_copy(
        update={
            "most_usd": highest([await prices.most_of(spec) for spec in specs]),
            "most_tokens": highest(spec.budget.tokens or None for spec in specs),
        }
    )


async def _spec(arm: Arm, entry: Entry, check: Check) -> Spec:
    spec = RUN_SPEC.validate_python(trial_task(arm, entry, label="experiment"))
    try:
        # What a run refuses would be refused at each trial, after other arms were paid for. And
        # until then a run of roles only names its loop, whose stages have models.
        return await check(spec)
    except InvalidInput as error:
        # Named by its arm, as the task is shared and each arm changes it.
        raise InvalidInput(f"arms.{arm.name}: {error.message}", cure=error.cure) from None


@dataclass(frozen=True)
class _Prices:
    """What models cost; each is asked for once."""

    models: ModelProfiles
    default_model: str
    known: dict[str, Price | None] = field(default_factory=dict)

    async def most_of(self, spec: Spec) -> Decimal | None:
        """The most that a run of a task may cost; None where nothing limits it."""
        budget = spec.budget
        return await self.most_usd(self._named(spec), budget.cost_usd, budget.tokens)

    async def most_usd(
        self, names: Sequence[str], cost_usd: Decimal | None, tokens: int | None
    ) -> Decimal | None:
        """The most that a run of these models may cost within its limits."""
        dearest = await self._all_written(names, tokens)
        # 0 is no limit, as in budgets of tasks.
        limits = [cost_usd] if cost_usd else []
        limits += [dearest] if dearest is not None else []
        return min(limits, default=None)

    async def _all_written(self, names: Sequence[str], tokens: int | None) -> Decimal | None:
        """The cost if the dearest model wrote all tokens; None without limit or price."""
        if not tokens:
            return None
        prices = [await self._price(name) for name in names]
        known = [worst_cost(one, Usage(output_tokens=tokens)) for one in prices if one is not None]
        return max(known) if len(known) == len(prices) else None

    async def _price(self, name: str) -> Price | None:
        if name not in self.known:
            try:
                self.known[name] = (await self.models.card(name)).price
            except (InvalidInput, ModelError, ModelUnavailable):
                # Also no price for a model that cannot be asked here: then nothing bounds its cost.
                self.known[name] = None
        return self.known[name]

    def _named(self, spec: Spec) -> Sequence[str]:
        chains = chains_of(spec, self.default_model)
        return tuple(dict.fromkeys(name for chain in chains for name in chain))
