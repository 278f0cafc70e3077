"""What the steps that open a run are told of its stages, and what they report."""

from pydantic import JsonValue

from perdure.domain.base import StepMessage
from perdure.domain.tools import AccessLevel, Grant


class SeatTools(StepMessage):
    """What one stage may be offered of the run's tools: its level, and its own list of names.

    Without a list it is offered all that the level allows.
    """

    level: AccessLevel
    allow: tuple[str, ...] | None = None


class SeatOrder(StepMessage):
    """The frame of one stage: its words, what it may, and what its kind of loop adds."""

    system: str
    grant: Grant
    extra: dict[str, JsonValue] = {}


class OpenedSeat(StepMessage):
    """The frame of one stage, and what it adds to each prompt."""

    frame: str
    system_tokens: int = 0
    task_tokens: int = 0
