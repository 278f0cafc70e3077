"""Stages that run a loop: the child run's specification, and the meaning of its outcome."""

from typing import TypeVar

from pydantic import JsonValue

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.delegation.spec import DelegationSettings, DelegationSpec
from perdure.domain.llm.usage import Usage
from perdure.domain.roles.definition import LoopSnapshot, RoleDefinition
from perdure.domain.roles.spec import RolesSettings, RolesSpec
from perdure.domain.roles.stage_bindings import level_of, level_within
from perdure.domain.roles.state import RoleState
from perdure.domain.run.hooks import Hooks
from perdure.domain.run.result import RunResult, SpendReport
from perdure.domain.run.spec import CommonSpec
from perdure.domain.turns.guidance import with_added
from perdure.domain.turns.records import IterationRecord, StageStatus

Nested = TypeVar("Nested", bound=CommonSpec)
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
            "context": nested_context(spec, state),
            "roles": settings,
            "tools": spec.tools.model_copy(update={"access": level}),
            "learn": False,
            "hooks": Hooks(),
        }
    )


def nested_delegation(spec: RolesSpec, role: RoleDefinition, *, state: RoleState) -> DelegationSpec:
    """The specification of a delegation that works as a stage; its goal is the stage's task."""
    limit = role.loop.max_iterations if role.loop else None
    settings = DelegationSettings()
    if limit is not None:
        settings = settings.model_copy(update={"max_iterations": limit})
    shared = {name: getattr(spec, name) for name in CommonSpec.model_fields}
    fields: dict[str, object] = {
        **shared,
        "kind": "delegation",
        "delegation": settings,
        "goal": role.prompt,
        "context": nested_context(spec, state),
        "tools": spec.tools.model_copy(update={"access": level_of(role, spec.tools)}),
        "learn": False,
        "hooks": Hooks(),
    }
    return DelegationSpec.model_validate(fields)


def nested_context(spec: RolesSpec, state: RoleState) -> dict[str, JsonValue]:
    """What a child is told beside its goal: the goal above it, and what earlier stages said."""
    context: dict[str, JsonValue] = {**spec.context, PARENT_GOAL: spec.goal}
    for one in state.done:
        if one.ref is not None:
            # By address, so that long texts stay out of the child's input.
            context[f"stage {one.record.name}"] = {"ref": one.ref.hash}
    for number, note in enumerate(state.notes, start=1):
        context[f"guidance {number}"] = note
    return with_added(context, state.control.inputs)


def with_limits(spec: Nested, limits: BudgetLimits) -> Nested:
    """The specification with the share of the budget that was reserved for it."""
    return spec.model_copy(update={"budget": limits})


def status_of_child(result: RunResult | None, *, stopping: bool) -> StageStatus:
    """What the end of a child run means for its stage: a usable text completes it."""
    # First: a child that was stopped with this run may still hand back a text.
    if stopping:
        return "cut"
    usable = result is not None and result.outcome in _USABLE and result.output_ref is not None
    return "completed" if usable else "failed"


def record_of_child(iteration: int, spend: SpendReport) -> IterationRecord:
    """The record of a stage whose work was a child run; an unknown cost stays unknown."""
    return IterationRecord(
        index=iteration,
        # Not its usage: what counts of that, a run may decide (`count_cache_reads`).
        usage=Usage(input_tokens=spend.tokens),
        cost_usd=spend.cost_usd,
        model_calls=spend.model_calls,
        tool_calls=spend.tool_calls,
        duration_s=spend.active_time_s,
    )


def tree_of(result: RunResult | None) -> str | None:
    """The files that the child ended with, where it could change any."""
    artifacts = result.artifacts if result else ()
    return next((one.ref for one in artifacts if one.kind == "tree"), None)
