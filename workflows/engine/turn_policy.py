"""What a turn of a model with its tools is in one kind of loop: the choices that differ."""

from typing import Protocol

from perdure.domain.budget.envelope import Budget
from perdure.domain.turns.settings import Turns
from perdure.domain.turns.tool_call_rules import VolumeLevel
from perdure.domain.turns.turn import Ending, Limits, TurnState


def last_call(budget: Budget) -> bool:
    """Whether a budget has a single model call left, and nobody is asked for more."""
    return budget.limits.on_exhausted == "abort" and budget.remaining("model_calls") == 1


class TurnPolicy(Protocol):
    """Asked by the turn loop wherever the kinds of loops differ; most answers have a default."""

    def begin_iteration(self, state: TurnState) -> None:
        """Count a turn and open its record."""
        ...

    def complete_iteration(
        self, state: TurnState, *, break_reason: str | None, error: str | None = None
    ) -> None:
        """Close the record of the turn in progress."""
        ...

    def on_critical_loop(self, level: VolumeLevel) -> Ending | None:
        """What follows a tool that brings nothing new: an ending; None asks a person."""
        return None

    @property
    def stage_name(self) -> str:
        """The stage of the iteration that calls tools; empty where there are none."""
        return ""

    @property
    def asks_inside(self) -> bool:
        """Whether an escalation is put to a person between two turns."""
        return True

    def offered(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The tools that a call may use, of those that the grant offers."""
        return names

    def budget_of(self, whole: Budget) -> Budget:
        """What the turns may spend of a run's budget."""
        return whole

    def turn_limit(self, turns: Turns) -> int:
        """The permitted turns, as they stand now."""
        return turns.max_iterations

    def bounded(self, limits: Limits) -> Limits:
        """The limits of a turn, with those that only this kind of loop knows."""
        return limits

    def begins_again(self) -> bool | None:
        """Whether others are sure to begin like this conversation; None: nobody knows."""
        return None

    def output_cap(self) -> int | None:
        """The longest reply that a turn asks for, in tokens; None: what settings and model say."""
        return None

    def continues_cuts(self) -> bool:
        """Whether a text that was cut short is gone on with."""
        return True


class InnerTurns(TurnPolicy):
    """Turns inside an iteration, which the loop itself counts and records."""

    def begin_iteration(self, state: TurnState) -> None:
        """Count the turn."""
        state.iteration += 1

    def complete_iteration(
        self, state: TurnState, *, break_reason: str | None, error: str | None = None
    ) -> None:
        """Note why the turn ended; the iteration's record is shared by its turns."""
        if state.record is not None and break_reason is not None:
            state.record = state.record.model_copy(update={"break_reason": break_reason})
