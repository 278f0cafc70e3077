"""The state of an `AgentLoop`, its input, and how a run is resumed from it."""

from datetime import datetime

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.budget.accounting import Budget
from perdure.domain.llm.transcript import TranscriptRef
from perdure.domain.run.resume import slim
from perdure.domain.run.spec import LoopInput
from perdure.domain.run.state import LoopState
from perdure.domain.turns.settings import resolve
from perdure.domain.turns.turn import TurnState


class AgentState(LoopState):
    """State of an `AgentLoop`; `recalled_skills` are those that memory gave it, by name."""

    turn: TurnState = TurnState()
    recalled_skills: tuple[str, ...] = ()


class AgentInput(LoopInput):
    """Input of `AgentLoop`."""

    spec: AgentSpec
    state: AgentState | None = None


def slim_agent(state: AgentState) -> AgentState:
    """An agent run's state at its end: a batch that was cut short is left to its transcript.

    So are the counters over tool calls, which are as long as the run.
    """
    turn = state.turn
    kept = TurnState(
        head=turn.head,
        iteration=turn.iteration,
        entries=[] if turn.batch is not None else turn.entries,
        deferred=turn.deferred,
        awaiting_results=turn.awaiting_results and turn.batch is None,
        tools_succeeded=turn.tools_succeeded,
        unread=turn.unread,
    )
    return slim(state, whole_control=True).model_copy(update={"turn": kept})


def agent_state(head: TranscriptRef, *, iteration: int, at: datetime, budget: Budget) -> AgentState:
    """The state of an agent run after a turn, of which its transcript says all but the budget."""
    turn = TurnState(head=head, iteration=iteration)
    return AgentState(started_at=at, budget=budget, turn=turn)


def forgiving_agent(spec: AgentSpec) -> AgentSpec:
    """The specification with one more turn, in place of the one that the failure cost."""
    turns = resolve(spec.agent).max_iterations + 1
    agent = spec.agent.model_copy(update={"max_iterations": turns})
    return spec.model_copy(update={"agent": agent})
