"""A stage that runs a loop of its own: what the child run is told, and what its end means."""

from pydantic import JsonValue

from perdure.domain.budget import BudgetLimits
from perdure.domain.result import RunResult, StageStatus
from perdure.domain.roles.definition import LoopSnapshot, RoleDefinition
from perdure.domain.roles.seats import level_within
from perdure.domain.roles.settings import RolesSettings
from perdure.domain.roles.state import RoleState
from perdure.domain.run import RolesSpec

PARENT_GOAL = "goal of the loop above"
_USABLE = frozenset(
    {"accepted", "best_effort", "out_of_budget", "deadline", "regressed", "tool_misuse"}
)


def nested_spec(
    spec: RolesSpec, role: RoleDefinition, snapshot: LoopSnapshot, *, state: RoleState
) -> RolesSpec:
    """The child's specification: its goal is the stage's task, its inputs what came before.

    It has the same models, session and project, and never more access than the run above it.
    """
    context: dict[str, JsonValue] = {**spec.context, PARENT_GOAL: spec.goal}
    for one in state.done:
        if one.ref is not None:
            context[f"stage {one.record.name}"] = {"ref": one.ref.hash}
    for number, note in enumerate(state.notes, start=1):
        context[f"guidance {number}"] = note
    loop = role.loop
    settings = RolesSettings(
        definition=snapshot.definition.name,
        parameters=dict(snapshot.parameters),
        max_iterations=loop.max_iterations if loop else None,
        session=spec.roles.session,
        project=spec.roles.project,
        snapshot=snapshot,
    )
    level = level_within(snapshot, spec.tools)
    return spec.model_copy(
        update={
            "goal": role.prompt,
            "context": context,
            "roles": settings,
            "tools": spec.tools.model_copy(update={"access": level}),
            "learn": False,
        }
    )


def with_limits(spec: RolesSpec, limits: BudgetLimits) -> RolesSpec:
    """The specification with the share of the budget that was reserved for it."""
    return spec.model_copy(update={"budget": limits})


def status_of_child(result: RunResult | None, *, stopping: bool) -> StageStatus:
    """What the end of a child run means for its stage: a usable text completes it."""
    if stopping:
        return "cut"
    usable = result is not None and result.outcome in _USABLE and result.output_ref is not None
    return "completed" if usable else "failed"


def tree_of(result: RunResult | None) -> str | None:
    """The files that the child ended with, where it could change any."""
    artifacts = result.artifacts if result else ()
    return next((one.ref for one in artifacts if one.kind == "tree"), None)
