"""What differs between the kinds of loops, each as a small policy that the engine is given."""

from typing import Generic, Protocol, TypeVar

from perdure.domain.budget.accounting import Budget
from perdure.domain.evaluation.judge_cache import JudgeSettings
from perdure.domain.evaluation.rubric import WorkerRequirements
from perdure.domain.run.activity_messages import OpenWorkspaceReport, StageSetup, StageTools
from perdure.domain.turns.repeated_tool_calls import VolumeLevel
from perdure.domain.turns.settings import Turns
from perdure.domain.turns.turn import Ending, Limits, TurnState
from perdure.workflows.engine.run import AnyRun

RunT = TypeVar("RunT", bound=AnyRun, covariant=True)


class Scoring(Protocol):
    """How a task wants its outputs to be scored."""

    @property
    def evaluator_share(self) -> float:
        """How much of the token budget the judges may use."""
        ...

    @property
    def pass_score(self) -> float | None:
        """The score from which on an output is good enough, None for no such score."""
        ...

    @property
    def judge_settings(self) -> JudgeSettings:
        """How the judges are to be asked."""
        ...

    @property
    def share_setting(self) -> str:
        """The setting that a person raises when the share is used up."""
        ...


class ModelSelection(Generic[RunT]):
    """The model chains of a run; some kinds of loops replace them for a stage or strategy."""

    def __init__(self, run: RunT) -> None:
        self.run = run

    def chain(self, role: str) -> tuple[str, ...]:
        """The models that play a role now, in order of preference."""
        return self.run.spec.models.chain(role)

    def chain_key(self, role: str) -> str:
        """The key under which the state keeps the failover position of the role's chain."""
        return role

    def model_of(self, role: str) -> str:
        """The model that a role calls next."""
        # The position may lie beyond a chain that `amend` or a strategy has made shorter.
        chain = self.chain(role)
        return chain[min(self.run.state.chain_index.get(self.chain_key(role), 0), len(chain) - 1)]

    def more_chains(self) -> dict[str, tuple[str, ...]]:
        """Chains beside those of the roles, so that the run knows their models from the start."""
        return {}


class Requirements:
    """The requirements of a kind of loop; by default there are none."""

    def needs(self) -> WorkerRequirements:
        """The programs, plugins and rights that the worker must have."""
        return WorkerRequirements()

    def seats(self) -> dict[str, StageTools]:
        """The stages that have a tool grant of their own; most loops have none."""
        return {}

    def seat_orders(self, report: OpenWorkspaceReport) -> dict[str, StageSetup]:
        """The frames of those stages, made once the worker has granted their tools."""
        return {}

    def session_and_project(self) -> tuple[str, str]:
        """The ids of the run's session and project; empty for none."""
        return "", ""

    def note_workspace(self, report: OpenWorkspaceReport) -> None:
        """Remember what the loop has to know of its worker later."""

    def orchestrates(self) -> bool:
        """Whether the run's model may start and steer loops."""
        return False

    def judges(self) -> tuple[str, ...]:
        """Models that are called in addition to those of the roles."""
        return ()


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
