"""Base classes of every durable or outward value: frozen, strict, JSON-safe.

Two rules keep old histories readable: a new field always has a default, and the default of an
existing `StepMessage` field is never changed, because step messages travel without their defaults.

Validators are built when they are first used: a command uses few of some hundred models, and
building all takes longer than most commands.
"""

from functools import cache
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

BUILT_WHEN_USED = ConfigDict(defer_build=True)


class FrozenModel(BaseModel):
    """An immutable value that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def build_validators() -> None:
    """Build the validators of all models that are loaded.

    A worker does so before its first task: there, it would count as time of a workflow's own code.
    """
    pending: list[type[BaseModel]] = [FrozenModel]
    while pending:
        model = pending.pop()
        model.model_rebuild()
        pending.extend(model.__subclasses__())


M = TypeVar("M", bound=FrozenModel)


def share_field_names(value: M) -> M:
    """The value, sharing with all of its type the set that names its fields as given.

    Pydantic keeps such a set in each value. It is the larger part of a value that a loop keeps for
    long, as many of the same kind, and says nothing of those that were built whole.
    """
    # A frozen model refuses an ordinary assignment.
    object.__setattr__(value, "__pydantic_fields_set__", _fields(type(value)))
    return value


@cache
def _fields(kind: type[FrozenModel]) -> set[str]:
    return set(kind.model_fields)


class ActivityMessage(FrozenModel):
    """A request to, or a report from, an activity.

    The Temporal converter leaves out fields that hold their default, which keeps a turn within its
    history allowance. Tags of unions therefore have no default.
    """


class WorkflowInput(BaseModel):
    """What a workflow is started with; the converter hands on one that it cannot read.

    The workflow itself then says what is wrong, and ends.
    """

    @property
    def belongs_to(self) -> str | None:
        """The id of the only workflow that may be started with it; None if any may."""
        return None
