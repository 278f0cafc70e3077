"""The state of an `AgentLoop`, and its input."""

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.run.spec import LoopInput
from perdure.domain.run.state import LoopState
from perdure.domain.turns.turn import TurnState


class AgentState(LoopState):
    """State of an `AgentLoop`; `recalled_skills` are those that memory gave it, by name."""

    turn: TurnState = TurnState()
    recalled_skills: tuple[str, ...] = ()


class AgentInput(LoopInput):
    """Input of `AgentLoop`."""

    spec: AgentSpec
    state: AgentState | None = None
