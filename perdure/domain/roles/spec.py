"""The specification of a run of roles."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue
from pydantic.json_schema import SkipJsonSchema

from perdure.domain.budget.envelope import MAX_ITERATIONS, BudgetLimits
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
    return {"tokens": TOKENS, "active_time": None, **value}


class RolesSpec(CommonSpec):
    """Each role of a definition in order, again until its condition ends it."""

    kind: Literal["roles"]
    budget: Annotated[BudgetLimits, BeforeValidator(_of_roles)] = BudgetLimits(
        tokens=TOKENS, active_time=None
    )
    roles: RolesSettings
