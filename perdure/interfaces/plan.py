"""What a run would do and could cost at most, before it starts."""

import json
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.budget.accounting import MAX_ITERATIONS
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.names import LoopKind
from perdure.domain.llm.attachments import Attachment, attachment_in
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.model_availability import unserved
from perdure.domain.refine.planning import plan_choice
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.roles.spec import RolesSpec, planned_rounds, wants_goal_judge, with_rounds
from perdure.domain.run.gates import GateSettings
from perdure.domain.run.spec import ROLES
from perdure.domain.specs import Spec, rubric_of
from perdure.domain.turns.settings import resolve
from perdure.gateway.types import QueueState
from perdure.interfaces.formatting import plural
from perdure.interfaces.input_warnings import input_warnings, task_sizes
from perdure.interfaces.planned_stages import PlannedStage, ends_when, planned_stages
from perdure.interfaces.worst_case import WorstCase, worst_case

SHOWN_ROLES = ("executor", "planner", "evaluator")
OF_MANAGERS = ("manager", "worker", "critic")
JUDGE = "evaluator"


class PlannedModel(FrozenModel):
    """A role, its models in order of preference, and what is known of the first."""

    role: str
    chain: tuple[str, ...]
    card: ModelProfile | None = None


class PlannedInput(FrozenModel):
    """A named input that the model is shown, and what it is, in words.

    `attachment` is what is known of an image or PDF: as the input of a start it needs no content,
    which is stored by now.
    """

    name: str
    what: str
    attachment: Attachment | None = None


class RunPlan(FrozenModel):
    """The answer to `run --dry-run`.

    `gates` says how long questions to people wait, and what happens then.
    `stages` and `ends` are those of a loop of roles, `crew` is what a manager may hand out.
    `unknown` says why nobody can tell who is ready: nobody could be asked. `lacking`
    names models that no worker can call.
    """

    kind: LoopKind
    goal: str
    label: str | None
    workspace: str | None
    inputs: tuple[PlannedInput, ...] = ()
    access: str
    models: tuple[PlannedModel, ...]
    iterations: int
    steps: tuple[str, ...]
    stages: tuple[PlannedStage, ...] = ()
    ends: str | None = None
    crew: str | None = None
    checks: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    worst: WorstCase
    gates: GateSettings = GateSettings()
    queues: tuple[QueueState, ...] = ()
    unknown: str | None = None
    lacking: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether every queue has a worker, and every model a worker that can call it."""
        served = self.unknown is None and all(queue.served for queue in self.queues)
        return served and not self.lacking


def plan_run(
    spec: Spec,
    *,
    cards: Mapping[str, ModelProfile],
    queues: Sequence[QueueState],
    default_model: str,
    unknown: str | None = None,
    warnings: Sequence[str] = (),
    texts: Mapping[str, str] | None = None,
) -> RunPlan:
    """Build the plan.

    Args:
        spec: the run.
        cards: the known model profiles by name.
        queues: the state of the queues.
        default_model: for roles that name no model.
        unknown: why the state of the queues is unknown.
        warnings: warnings to begin with.
        texts: the texts of inputs that are stored as blobs, by address.
    """
    models = tuple(_models(spec, cards, default_model))
    stages = _stages(spec, models[0].chain)
    sizes = task_sizes(spec, texts or {})
    at_work = [cards.get(name) for name in _at_work(spec, stages, models)]
    return RunPlan(
        kind=spec.kind,
        goal=spec.goal,
        label=spec.metadata.label,
        workspace=spec.workspace,
        inputs=tuple(
            PlannedInput(name=name, what=_input_in_words(value), attachment=attachment_in(value))
            for name, value in spec.context.items()
        ),
        access=spec.tools.access or "readonly, where the model can choose tools",
        models=models,
        iterations=iteration_limit(spec),
        steps=_steps(spec, models, stages),
        stages=stages,
        ends=_ends(spec),
        crew=_crew(spec),
        checks=_named(spec, judged=False),
        hooks=tuple(f"{hook.kind} {hook.name}" for hook in spec.hooks.wanted.values()),
        judged=_named(spec, judged=True),
        worst=worst_case(spec, at_work, sizes),
        gates=spec.gates,
        queues=tuple(queues),
        unknown=unknown,
        lacking=tuple(told for queue in queues for told in unserved(spec, queue.lacks)),
        warnings=(
            *warnings,
            *_warnings(spec, models),
            *input_warnings(spec, _readers(spec, models, stages), cards, sizes),
        ),
    )


def _readers(
    spec: Spec, models: Sequence[PlannedModel], stages: Sequence[PlannedStage]
) -> dict[str, tuple[str, ...]]:
    """The models of each role, stage and named judge: all of them may get the task."""
    rubric = rubric_of(spec)
    stated = list(_all_of(stages))
    # Stages name their own models, so the executor's own entry is left out if they are known.
    roles = {one.role: one.chain for one in models if not stated or one.role != "executor"}
    named = rubric.judges if rubric else {}
    return {
        **roles,
        **{f"stage {stage.name}": stage.models for stage in stated},
        **{f"judge {name}": (name,) for name in named if name is not None},
    }


def _input_in_words(value: JsonValue) -> str:
    if (shown := attachment_in(value)) is not None:
        return shown.described
    match value:
        case str():
            return plural(len(value), "character")
        case {"ref": str()}:
            return "a text, kept beside the task"
        case list():
            return f"a list of {plural(len(value), 'item')}"
        case dict():
            return f"an object of {plural(len(value), 'field')}"
        case _:
            return json.dumps(value)


def iteration_limit(spec: Spec) -> int:
    """The iteration after which the loop ends in any case."""
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


def models_of(spec: Spec, default_model: str) -> tuple[str, ...]:
    """The first model of every role, stage and named judge, for which a plan needs the cards."""
    return tuple(dict.fromkeys(chain[0] for chain in chains_of(spec, default_model)))


def chains_of(spec: Spec, default_model: str) -> list[tuple[str, ...]]:
    """The models of every role, stage and named judge, each in order of preference."""
    executor = spec.models.chain("executor") or (default_model,)
    rubric = rubric_of(spec)
    chains = [
        *(spec.models.chain(role) or executor for role in ROLES),
        *(stage.models for stage in _all_of(_stages(spec, executor))),
        *((name,) for name in (rubric.judges if rubric else ()) if name is not None),
    ]
    return [chain for chain in chains if chain]


def _models(
    spec: Spec, cards: Mapping[str, ModelProfile], default_model: str
) -> Sequence[PlannedModel]:
    found: list[PlannedModel] = []
    for role in _shown_roles(spec):
        chain = spec.models.chain(role) or (default_model,)
        if role == "planner" and not _plans(spec, cards.get(chain[0])):
            continue
        found.append(PlannedModel(role=role, chain=chain, card=cards.get(chain[0])))
    return found


def _shown_roles(spec: Spec) -> tuple[str, ...]:
    match spec:
        case DelegationSpec():
            managed = OF_MANAGERS if spec.delegation.critique.enabled else OF_MANAGERS[:-1]
            return (*managed, JUDGE) if _named(spec, judged=True) else managed
        case RolesSpec():
            return ("executor", "evaluator") if _asks_goal_judge(spec) else ("executor",)
        case AgentSpec() | RefineSpec():
            judged = _named(spec, judged=True)
            return SHOWN_ROLES if judged else SHOWN_ROLES[:-1]


def _at_work(
    spec: Spec, stages: Sequence[PlannedStage], models: Sequence[PlannedModel]
) -> tuple[str, ...]:
    """The first models of those who do the work, each once."""
    match spec:
        case RolesSpec() if stages:
            chains = [stage.models for stage in _all_of(stages)]
        case DelegationSpec():
            chains = [planned.chain for planned in models]
        case _:
            chains = [models[0].chain]
    names = tuple(dict.fromkeys(chain[0] for chain in chains if chain))
    return names or models[0].chain[:1]


def _all_of(stages: Sequence[PlannedStage]) -> Iterator[PlannedStage]:
    """All stages, including those of inner loops."""
    for stage in stages:
        yield stage
        yield from _all_of(stage.stages)


def _steps(
    spec: Spec, models: Sequence[PlannedModel], stages: Sequence[PlannedStage]
) -> tuple[str, ...]:
    match spec:
        case AgentSpec():
            steps = ("model call", "tools it asks for", "until it answers in text")
            recall = ("recall",) if spec.recall else ()
            return (*recall, *(steps if spec.tools.access != "minimal" else steps[::2]))
        case RefineSpec():
            planned = any(model.role == "planner" for model in models)
            before = [*(["recall"] if spec.recall else []), *(["plan"] if planned else [])]
            return (*before, "execute", "evaluate", "decide", "refine")
        case RolesSpec():
            named = tuple(stage.name for stage in stages)
            return named or (f"the stages of {spec.roles.definition}, in order",)
        case DelegationSpec():
            review = ("review",) if spec.delegation.critique.enabled else ()
            score = ("the rubric scores what is handed over",) if spec.rubric else ()
            return ("manager decides", "workers work", *review, *score)


def _stages(spec: Spec, executor: tuple[str, ...]) -> tuple[PlannedStage, ...]:
    if not isinstance(spec, RolesSpec) or spec.roles.snapshot is None:
        return ()
    return planned_stages(spec.roles.snapshot, spec.tools, executor)


def _ends(spec: Spec) -> str | None:
    match spec:
        case RolesSpec() if spec.roles.snapshot is not None:
            condition = spec.roles.snapshot.definition.termination_condition
            return ends_when(with_rounds(condition, spec.roles.max_iterations))
        case DelegationSpec():
            return "the manager completes the task and the gates accept it"
        case _:
            return None


def _crew(spec: Spec) -> str | None:
    """How many workers a manager may have, and how many levels."""
    if not isinstance(spec, DelegationSpec):
        return None
    own = spec.delegation
    each, below = own.workers_per_iteration, own.submanagers
    told = [
        f"up to {each} workers an iteration" if each else "any number of workers an iteration",
        f"{own.parallel} at once",
        *([f"{spec.budget.workers} in all"] if spec.budget.workers else []),
    ]
    if below.per_run and spec.budget.depth:
        told.append(f"{below.per_run} of them managers, {spec.budget.depth} levels deep")
    clocks = resolve(spec.agent.model_copy(update={"profile": "delegate"}))
    told.append(
        f"each {clocks.active_time:g} s of work (agent.active_time), {clocks.tool_timeout:g} s a "
        "tool call (agent.tool_timeout)"
    )
    return ", ".join(told)


def _asks_goal_judge(spec: RolesSpec) -> bool:
    snapshot = spec.roles.snapshot
    return snapshot is not None and wants_goal_judge(snapshot.definition.termination_condition)


def _plans(spec: Spec, planner: ModelProfile | None) -> bool:
    """Whether the planner will be called, as far as this is known before the run."""
    if not isinstance(spec, RefineSpec):
        return False
    wanted, _ = plan_choice(
        spec.refine.plan,
        max_iterations=spec.refine.planned_limit,
        answer_only=False,
        small_model=planner is not None and planner.small,
    )
    return wanted


def _named(spec: Spec, *, judged: bool) -> tuple[str, ...]:
    rubric = rubric_of(spec)
    return tuple(
        item.name for item in (rubric.dimensions if rubric else ()) if item.is_judged == judged
    )


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
