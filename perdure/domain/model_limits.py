"""What a specification asks of its models that they cannot do: tools, judging, settings, sight."""

from collections.abc import Mapping, Sequence

from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.llm.attachments import attachment_in
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.llm.shown_attachments import sight_problem
from perdure.domain.roles.definition import LoopDefinition
from perdure.domain.roles.spec import RolesSpec, wants_goal_judge
from perdure.domain.run.spec import ROLES, ModelsSpec
from perdure.domain.specs import Spec, rubric_of

Cards = Mapping[str, ModelProfile]


def beyond_its_models(
    spec: Spec, models: ModelsSpec, cards: Cards, *, tools: Sequence[str]
) -> list[str]:
    """What the models of a run cannot do, as `path: what is wrong`.

    Args:
        spec: the task.
        models: its models, with the executor filled in.
        cards: what is known of models by name; nothing is said of others.
        tools: the names of the tools on offer.
    """
    return [
        *_cannot_choose(cards.get(models.chain("executor")[0]), tools),
        *_judges(spec, models, cards),
        *_goal_judges(spec, models, cards),
        *_unable(spec, models, cards),
        *_blind(spec, models, cards),
    ]


def loops_of(spec: Spec) -> list[LoopDefinition]:
    """The loop of a run, and the loops that its stages are, however deep."""
    if not isinstance(spec, RolesSpec) or spec.roles.snapshot is None:
        return []
    found: list[LoopDefinition] = []
    waiting = [spec.roles.snapshot]
    while waiting:
        snapshot = waiting.pop(0)
        found.append(snapshot.definition)
        waiting += snapshot.nested.values()
    return found


def _cannot_choose(model: ModelProfile | None, tools: Sequence[str]) -> list[str]:
    """The tools of a run whose model calls none."""
    if model is None or model.tools or not tools:
        return []
    return [f"tools.access: {model.name} cannot choose tools by itself; allowed for it: minimal"]


def _judges(spec: Spec, models: ModelsSpec, cards: Cards) -> list[str]:
    rubric = rubric_of(spec)
    found: list[str] = []
    for judge, names in rubric.judges.items() if rubric else ():
        path = "models.evaluator" if judge is None else "judge.model"
        found += [
            f"{path}: {name} does not judge, but the rubric asks for a judge "
            f"({', '.join(names)}); name another evaluator or use checks"
            for name in (models.chain("evaluator") if judge is None else (judge,))
            if name in cards and not cards[name].judges
        ]
    return found


def _goal_judges(spec: Spec, models: ModelsSpec, cards: Cards) -> list[str]:
    """Judges of a goal that do not judge."""
    return [
        f"models.evaluator: {name} does not judge, but {definition.name} asks a judge whether the "
        "goal is achieved; name another evaluator"
        for definition in loops_of(spec)
        if wants_goal_judge(definition.termination_condition)
        for name in models.chain("evaluator")
        if name in cards and not cards[name].judges
    ]


def _unable(spec: Spec, models: ModelsSpec, cards: Cards) -> list[str]:
    """Settings that the first model of a role cannot follow; its fallbacks do what they can."""
    stages = {role.role: role.models for one in loops_of(spec) for role in one.roles}
    return [
        f"models.settings.{role}.{field}: {why}"
        for role, settings in models.settings.items()
        for name in (stages.get(role) or models.chain(role if role in ROLES else "executor"))[:1]
        if name in cards
        for field, why in settings.problems_with(cards[name])
    ]


def _blind(spec: Spec, models: ModelsSpec, cards: Cards) -> list[str]:
    """Models that are to do the task and cannot be shown what it shows.

    Others, such as judges, read in words what is there. Of the stages of roles one has to see it.
    """
    shown = [one for value in spec.context.values() if (one := attachment_in(value)) is not None]
    if not shown:
        return []
    role = "worker" if isinstance(spec, DelegationSpec) else "executor"
    path, chains = f"models.{role}", [models.chain(role)]
    if isinstance(spec, RolesSpec) and (defined := loops_of(spec)):
        own = [role.models for one in defined for role in one.roles]
        chains = [tuple(chain) or models.chain("executor") for chain in own]
    problems = [sight_problem(shown, chain, cards) for chain in chains]
    return [f"{path}: {problems[0]}"] if all(problems) else []
