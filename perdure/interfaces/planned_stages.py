"""The stages of a loop as a dry run shows them: their models and access, and what ends the loop."""

from perdure.domain.evaluation.termination_conditions import (
    Combined,
    Condition,
    EvaluationBound,
    GoalBound,
    IterationBound,
    Manual,
    MaxIterations,
    TimeBound,
    Timeout,
    ToolBound,
)
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.roles.definition import LoopSnapshot, RoleDefinition
from perdure.domain.roles.short_form import REVIEW_CRITERIA as ASSUMED
from perdure.domain.roles.stage_bindings import level_of, stage_chain
from perdure.domain.turns.settings import ToolsSpec


class PlannedStage(FrozenModel):
    """One stage of an iteration; of one that runs a loop, `loop` and the stages inside.

    `gate`: its verdict counts. `share` is what it may use of the run's tokens.
    """

    name: str
    role: str
    access: str | None = None
    models: tuple[str, ...] = ()
    gate: bool = False
    share: float | None = None
    loop: str | None = None
    stages: tuple["PlannedStage", ...] = ()


def planned_stages(
    snapshot: LoopSnapshot, tools: ToolsSpec, executor: tuple[str, ...]
) -> tuple[PlannedStage, ...]:
    """The stages of one iteration in order, as the run would bind them.

    Args:
        snapshot: the loop with its parameters filled in.
        tools: what the run allows.
        executor: the run's models in order of preference.
    """
    definition = snapshot.definition
    gate = definition.review_stage.name if definition.criteria else None
    found: list[PlannedStage] = []
    for role in definition.roles:
        nested = snapshot.nested.get(role.name)
        inside = planned_stages(nested, tools, executor) if nested is not None else ()
        found.append(
            PlannedStage(
                name=role.name,
                role=role.role,
                access=None if role.loop else level_of(role, tools),
                models=() if role.loop else stage_chain(role, executor),
                gate=role.name == gate,
                share=role.budget,
                loop=_loop_of(role),
                stages=inside,
            )
        )
    return tuple(found)


def ends_when(condition: Condition) -> str:
    """What ends the loop, in words."""
    match condition:
        case Combined():
            joined = f" {condition.operator} ".join(map(_inside, condition.conditions))
            return joined or "never"
        case EvaluationBound(criteria=criteria):
            by = f' by criteria that are assumed ("{criteria}")' if criteria == ASSUMED else ""
            return f"the review approves{by}, or after {_times(condition.max_review_rounds)}"
        case GoalBound():
            return f"a judge finds the goal achieved, or after {_times(condition.max_iterations)}"
        case IterationBound(iterations=limit) | MaxIterations(limit=limit):
            return f"after {_times(limit)}"
        case TimeBound(until=until) if until is not None:
            return f"at {until.isoformat()}"
        case TimeBound(seconds=seconds, wall=wall) | Timeout(seconds=seconds, wall=wall):
            return f"after {seconds or 0:g} s{'' if wall else ' of work'}"
        case ToolBound():
            return f"{condition.tool} gives a number {condition.operator} {condition.value:g}"
        case Manual():
            return "somebody stops it"
        case _:
            return condition.type.replace("_", " ")


def _inside(condition: Condition) -> str:
    told = ends_when(condition)
    return f"({told})" if isinstance(condition, Combined) or " or " in told else told


def _times(rounds: int) -> str:
    return "1 iteration" if rounds == 1 else f"{rounds} iterations"


def _loop_of(role: RoleDefinition) -> str | None:
    return None if role.loop is None else role.loop.definition or role.loop.kind
