"""Base classes of every durable or outward value: frozen, strict, JSON-safe.

Two rules keep old histories readable: a new field always has a default, and the default of an
existing `StepMessage` field is never changed, because step messages travel without their defaults.
"""

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """An immutable value that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ActivityMessage(FrozenModel):
    """A request to, or a report from, an activity.

    The Temporal converter leaves out fields that hold their default, which keeps a turn within its
    history allowance. Tags of unions therefore have no default.
    """


class WorkflowInput(BaseModel):
    """What a workflow is started with; the converter hands on one that it cannot read.

    The workflow itself then says what is wrong, and ends.
    """
