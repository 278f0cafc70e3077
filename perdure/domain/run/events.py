"""The one vocabulary of events, and the bounded ring that a run keeps of them."""

from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from perdure.domain.foundation.base import FrozenModel, share_field_names

EventType = Literal[
    "run_started",
    "run_reset",
    "workspace_moved",
    "files_unsaved",
    "servers_asked",
    "recalled",
    "planned",
    "iteration_started",
    "model_call_started",
    "model_replied",
    "model_failed_over",
    "text_answered",
    "context_pressure",
    "tool_started",
    "tool_finished",
    "tool_refused",
    "evaluated",
    "decided",
    "iteration_completed",
    "strategy_switched",
    "stall_warned",
    "condition_met",
    "budget_warning",
    "gate_opened",
    "gate_answered",
    "paused",
    "resumed",
    "amended",
    "input_added",
    "child_started",
    "child_finished",
    "stage_started",
    "stage_finished",
    "verdict",
    "tool_created",
    "skill_saved",
    "hook_failed",
    "input_unseen",
    "learned",
    "ended",
]

RING_SIZE = 200
# Each continue-as-new writes what is carried into history.
CARRIED = 40


class Event(FrozenModel):
    """One thing that happened in a run; `seq` counts from 1 without gaps."""

    seq: int
    at: datetime
    run: str
    iteration: int
    type: EventType
    data: dict[str, JsonValue] = {}


class Ring(FrozenModel):
    """The newest events; older ones have left it, `last` says how many there were in all."""

    last: int = 0
    events: tuple[Event, ...] = ()

    def note(
        self,
        type: EventType,
        *,
        at: datetime,
        run: str,
        iteration: int,
        data: dict[str, JsonValue] | None = None,
    ) -> "Ring":
        """The ring with one more event, the oldest dropped when it is full."""
        # Each run that a worker holds keeps up to 200 of these in memory.
        event = share_field_names(
            Event(
                seq=self.last + 1, at=at, run=run, iteration=iteration, type=type, data=data or {}
            )
        )
        return Ring(last=event.seq, events=(*self.events, event)[-RING_SIZE:])

    def since(self, seq: int) -> tuple[Event, ...]:
        """The events after `seq` that are still held, oldest first."""
        return tuple(event for event in self.events if event.seq > seq)

    def carried(self) -> "Ring":
        """The part that travels through continue-as-new."""
        return Ring(last=self.last, events=self.events[-CARRIED:])
