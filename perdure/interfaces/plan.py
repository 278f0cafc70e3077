"""What a run would do and could cost at most, told before it starts."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from perdure.domain.agent.settings import resolve
from perdure.domain.base import Frozen
from perdure.domain.budget import MAX_ITERATIONS, worst_cost
from perdure.domain.models import ModelCard
from perdure.domain.names import LoopKind
from perdure.domain.refine.planning import wants_plan
from perdure.domain.roles.limits import planned_rounds
from perdure.domain.roles.seats import level_of
from perdure.domain.run import AgentSpec, DelegationSpec, RefineSpec, RolesSpec, Spec
from perdure.domain.tokens import estimate
from perdure.domain.usage import Usage
from perdure.interfaces.gateway.facts import QueueState

SHOWN_ROLES = ("executor", "planner", "evaluator")


class PlannedModel(Frozen):
    """A role, its models in order of preference, and what is known of the first."""

    role: str
    chain: tuple[str, ...]
    card: ModelCard | None = None


class WorstCase(Frozen):
    """The most that a run may spend. No call starts that does not fit into the limits.

    `one_call_usd` is the price of one call that reads the goal and writes all it may.
    """

    tokens: int | None
    cost_usd: Decimal | None
    active_time_s: float | None
    wall_time_s: float | None
    model_calls: int | None
    one_call_usd: Decimal | None
    sentence: str


class RunPlan(Frozen):
    """The answer to `run --dry-run`.

    `unknown` says why nobody can tell who is ready: no services run that could be asked.
    """

    kind: LoopKind
    goal: str
    label: str | None
    workspace: str | None
    access: str
    models: tuple[PlannedModel, ...]
    iterations: int
    steps: tuple[str, ...]
    checks: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()
    worst: WorstCase
    queues: tuple[QueueState, ...] = ()
    unknown: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether every queue is known to have a worker."""
        return self.unknown is None and all(queue.ready for queue in self.queues)


def plan_run(
    spec: Spec,
    *,
    cards: Mapping[str, ModelCard],
    queues: Sequence[QueueState],
    default_model: str,
    unknown: str | None = None,
    warnings: Sequence[str] = (),
) -> RunPlan:
    """Put the plan together; `cards` are by model name, for those that are known."""
    models = tuple(_models(spec, cards, default_model))
    executor = models[0].card
    return RunPlan(
        kind=spec.kind,
        goal=spec.goal,
        label=spec.metadata.label,
        workspace=spec.workspace,
        access=spec.tools.access or "readonly, where the model can choose tools",
        models=models,
        iterations=iteration_limit(spec),
        steps=_steps(spec, models),
        checks=_named(spec, judged=False),
        judged=_named(spec, judged=True),
        worst=worst_case(spec, executor),
        queues=tuple(queues),
        unknown=unknown,
        warnings=(*warnings, *_warnings(spec, models)),
    )


def iteration_limit(spec: Spec) -> int:
    """After how many iterations the loop ends whatever happens."""
    match spec:
        case RefineSpec():
            own = spec.refine.planned_limit
        case AgentSpec():
            own = resolve(spec.agent).max_iterations
        case RolesSpec():
            own = planned_rounds(spec.roles) or MAX_ITERATIONS
        case DelegationSpec():
            own = spec.delegation.max_iterations
    return min(own, spec.budget.iterations) if spec.budget.iterations else own


def worst_case(spec: Spec, card: ModelCard | None) -> WorstCase:
    """The limits in force, and what they come to in words."""
    budget = spec.budget
    price = card.price if card else None
    one = None
    if card is not None and price is not None:
        usage = Usage(input_tokens=estimate(spec.goal).total, output_tokens=card.max_output)
        one = worst_cost(price, usage)
    return WorstCase(
        tokens=budget.tokens or None,
        cost_usd=budget.cost_usd or None,
        active_time_s=budget.active_time or None,
        wall_time_s=budget.wall_time or None,
        model_calls=budget.model_calls or None,
        one_call_usd=one,
        sentence=_worst_sentence(spec, card),
    )


def _worst_sentence(spec: Spec, card: ModelCard | None) -> str:
    limit = spec.budget.cost_usd
    if card is not None and card.price is not None and _is_free(card):
        return "Nothing: this model costs no money."
    if card is None or card.price is None:
        if spec.budget.unknown_price == "block" and limit:
            return "The model's price is unknown, so with a cost limit the run will not call it."
        return "Unknown: the model has no known price."
    if not limit:
        tokens = spec.budget.tokens
        if not tokens:
            return "Unlimited: the run has neither a cost nor a token limit."
        most = worst_cost(card.price, Usage(output_tokens=tokens))
        return f"{most:.2f} USD, if all {tokens:,} tokens were written by {card.name}."
    return f"{limit} USD: no call starts that does not fit into what is left."


def _is_free(card: ModelCard) -> bool:
    price = card.price
    return price is not None and price.input_per_million == price.output_per_million == 0


def _models(
    spec: Spec, cards: Mapping[str, ModelCard], default_model: str
) -> Sequence[PlannedModel]:
    judged = _named(spec, judged=True)
    found: list[PlannedModel] = []
    for role in SHOWN_ROLES:
        if role == "evaluator" and not judged:
            continue
        chain = spec.models.chain(role) or (default_model,)
        if role == "planner" and not _plans(spec, cards.get(chain[0])):
            continue
        found.append(PlannedModel(role=role, chain=chain, card=cards.get(chain[0])))
    return found


def _steps(spec: Spec, models: Sequence[PlannedModel]) -> tuple[str, ...]:
    match spec:
        case AgentSpec():
            steps = ("model call", "tools it asks for", "until it answers in text")
            return steps if spec.tools.access != "minimal" else steps[::2]
        case RefineSpec():
            planned = any(model.role == "planner" for model in models)
            before = [*(["recall"] if spec.recall else []), *(["plan"] if planned else [])]
            return (*before, "execute", "evaluate", "decide", "refine")
        case RolesSpec():
            return _stages(spec)
        case DelegationSpec():
            return ("manager decides", "workers work", "review", "until it is complete")


def _stages(spec: RolesSpec) -> tuple[str, ...]:
    if spec.roles.snapshot is None:
        return (f"the stages of {spec.roles.definition}, in order", "its condition")
    definition = spec.roles.snapshot.definition
    named = tuple(f"{role.name} ({level_of(role, spec.tools)})" for role in definition.roles)
    return (*named, f"until {definition.termination_condition.type.replace('_', ' ')}")


def _plans(spec: Spec, planner: ModelCard | None) -> bool:
    """Whether the planner will be asked, as far as that can be told before the run."""
    if not isinstance(spec, RefineSpec):
        return False
    wanted, _ = wants_plan(
        spec.refine.plan,
        max_iterations=spec.refine.hard_limit,
        answer_only=False,
        small_model=planner is not None and planner.small,
    )
    return wanted


def _named(spec: Spec, *, judged: bool) -> tuple[str, ...]:
    if not isinstance(spec, RefineSpec):
        return ()
    return tuple(item.name for item in spec.rubric.dimensions if item.is_judged == judged)


def _warnings(spec: Spec, models: Sequence[PlannedModel]) -> Sequence[str]:
    told: list[str] = []
    for planned in models:
        card = planned.card
        if planned.role == "evaluator" and card is not None and not card.judges:
            told.append(f"{card.name} does not judge: checks alone decide.")
        wants_tools = planned.role == "executor" and bool(spec.tools.allow or spec.workspace)
        if card is not None and not card.tools and wants_tools:
            told.append(f"{card.name} cannot choose tools by itself; it answers in text.")
    if spec.budget.cost_usd is None or not spec.budget.cost_usd:
        told.append("The run has no cost limit.")
    return told
