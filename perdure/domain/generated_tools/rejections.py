"""Why a tool was not made: the stage, its code, its category, and whether a repair may help."""

from typing import Literal

from perdure.domain.foundation.base import FrozenModel

Stage = Literal[
    "enabled",
    "cache",
    "name",
    "limits",
    "static",
    "schema",
    "placeholder",
    "smoke",
    "dry_run",
    "freeze",
]
STAGES: tuple[Stage, ...] = (
    "enabled",
    "cache",
    "name",
    "limits",
    "static",
    "schema",
    "placeholder",
    "smoke",
    "dry_run",
    "freeze",
)
Category = Literal[
    "disabled",
    "name",
    "taken",
    "limit",
    "validation",
    "import",
    "schema",
    "placeholder",
    "smoke",
    "dry_run",
    "approval",
]
REPAIRABLE: frozenset[Stage] = frozenset({"static", "schema", "smoke", "dry_run"})
MESSAGE_CHARACTERS = 600


class ToolRefused(FrozenModel):
    """The stage that a tool did not pass; codes are those of HTTP, `message` says what to change.

    Whether a repair may help is a matter of the stage alone.
    """

    stage: Stage
    code: int
    category: Category
    message: str

    @property
    def repairable(self) -> bool:
        """Whether other code under the same name could pass."""
        return self.stage in REPAIRABLE

    @property
    def sentence(self) -> str:
        """What a person or a worker is told."""
        return f"{self.stage} ({self.code} {self.category}): {self.message}"


def refused(stage: Stage, code: int, category: Category, message: str) -> ToolRefused:
    """A refusal whose message has the length that travels."""
    return ToolRefused(
        stage=stage, code=code, category=category, message=message[:MESSAGE_CHARACTERS]
    )
