"""The specification of a run of roles, and the limits of its rounds."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue
from pydantic.json_schema import SkipJsonSchema

from perdure.domain.budget.accounting import MAX_ITERATIONS, BudgetLimits
from perdure.domain.evaluation.termination_conditions import (
    Combined,
    Condition,
    EvaluationBound,
    GoalBound,
    IterationBound,
    MaxIterations,
    RepeatedOutput,
    certain_limit,
    leaves,
)
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.roles.definition import LoopSnapshot
from perdure.domain.run.spec import CommonSpec

MAX_REWORK = 3


TOKENS = 2_000_000


class RolesSettings(FrozenModel):
    """What a run of roles is told beside its goal.

    `definition` names a built-in loop or one of the workspace. `max_iterations`, when given,
    replaces the definition's limit. `max_rework_attempts`: so many rejections in a row for the same
    findings ask a person. `session` and `project` say where artifacts and todos land. `snapshot` is
    the definition as it stood when the run started; it is filled in then.
    """

    definition: str = Field(min_length=1)
    parameters: dict[str, JsonValue] = {}
    max_iterations: int | None = Field(default=None, ge=1, le=MAX_ITERATIONS)
    max_rework_attempts: int = Field(default=MAX_REWORK, ge=1, le=MAX_ITERATIONS)
    session: str | None = None
    project: str | None = None
    snapshot: SkipJsonSchema[LoopSnapshot | None] = None

    @property
    def rework_limit(self) -> int:
        """After how many rejections in a row for the same findings a person is asked."""
        return self.max_rework_attempts


def _of_roles(value: object) -> object:
    """Several stages cost more than one conversation: other limits where none are given."""
    if not isinstance(value, dict):
        return value
    # What is given counts, also null, which means no limit.
    return {"tokens": TOKENS, "active_time": None, **value}


class RolesSpec(CommonSpec):
    """Each role of a definition in order, again until its condition ends it."""

    kind: Literal["roles"]
    # A validator does not see the default, so that has these limits itself.
    budget: Annotated[BudgetLimits, BeforeValidator(_of_roles)] = BudgetLimits(
        tokens=TOKENS, active_time=None
    )
    roles: RolesSettings


def with_rounds(condition: Condition, rounds: int | None) -> Condition:
    """The condition with `rounds` in place of every limit on iterations; None keeps its own."""
    if rounds is None:
        return condition
    match condition:
        case Combined():
            changed = tuple(with_rounds(child, rounds) for child in condition.conditions)
            return condition.model_copy(update={"conditions": changed})
        case EvaluationBound():
            return condition.model_copy(update={"max_review_rounds": rounds})
        case GoalBound():
            return condition.model_copy(update={"max_iterations": rounds})
        case IterationBound():
            return condition.model_copy(update={"iterations": rounds})
        case MaxIterations():
            return condition.model_copy(update={"limit": rounds})
        case _:
            return condition


def round_limit(condition: Condition, rounds: int | None) -> int:
    """The rounds after which the run has ended whatever the stages said."""
    return rounds or _own_limit(condition) or MAX_ITERATIONS


def planned_rounds(settings: RolesSettings) -> int | None:
    """The permitted iterations, as far as they are known; None when only time or people end it."""
    if settings.snapshot is None or settings.max_iterations:
        return settings.max_iterations
    limit = round_limit(settings.snapshot.definition.termination_condition, None)
    return None if limit >= MAX_ITERATIONS else limit


def _own_limit(condition: Condition) -> int | None:
    match condition:
        case EvaluationBound():
            return condition.max_review_rounds
        case Combined() if condition.operator == "or":
            known = [_own_limit(child) for child in condition.conditions]
            return min((limit for limit in known if limit is not None), default=None)
        case Combined():
            known = [_own_limit(child) for child in condition.conditions]
            limits = [limit for limit in known if limit is not None]
            # An `and` ends with the last of its parts, and never where one has no limit.
            return max(limits) if len(limits) == len(known) else None
        case _:
            return certain_limit(condition)


def wants_verdict(condition: Condition) -> bool:
    """Whether a stage's verdict is asked for."""
    return any(isinstance(leaf, EvaluationBound) for leaf in leaves(condition))


def wants_goal_judge(condition: Condition) -> bool:
    """Whether a judge is asked if the goal is achieved."""
    return any(isinstance(leaf, GoalBound) for leaf in leaves(condition))


def compares_outputs(condition: Condition) -> bool:
    """Whether it matters that an output came before."""
    return any(isinstance(leaf, RepeatedOutput) for leaf in leaves(condition))
