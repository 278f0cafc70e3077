"""The `roles:` block of a specification: which loop of roles, with which parameters."""

from pydantic import Field, JsonValue
from pydantic.json_schema import SkipJsonSchema

from perdure.domain.base import Frozen
from perdure.domain.budget import MAX_ITERATIONS
from perdure.domain.roles.definition import LoopSnapshot

MAX_REWORK = 3
TOKENS = 2_000_000


class RolesSettings(Frozen):
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
