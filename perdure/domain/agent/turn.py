"""The turn loop's state, and the one function that says what follows a model's reply."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from perdure.domain.agent.calls import CallAsked, PlannedCall, Tallies
from perdure.domain.agent.settings import Turns
from perdure.domain.base import Frozen
from perdure.domain.outcomes import Outcome
from perdure.domain.refs import Ref
from perdure.domain.result import IterationRecord
from perdure.domain.standing import PendingInput
from perdure.domain.steps import Entry
from perdure.domain.transcript import Head, ToolOutcome


class Settled(Frozen):
    """A call of the current batch that has its result."""

    call_id: str
    outcome: ToolOutcome
    ref: Ref | None = None
    note: str = ""
    ms: int = 0
    number: float | None = None


class Batch(BaseModel):
    """The calls of one reply while they are carried out; survives continue-as-new."""

    model_config = ConfigDict(extra="forbid")

    planned: list[PlannedCall] = []
    settled: dict[str, Settled] = {}
    gates: dict[str, str] = {}

    @property
    def open(self) -> list[PlannedCall]:
        """Calls without a result, in call order."""
        return [entry for entry in self.planned if entry.call.id not in self.settled]


class Ending(Frozen):
    """Why the turn loop must end, before its last text is there."""

    outcome: Outcome
    reason: str
    detail: str = ""


class TurnState(BaseModel):
    """Everything a turn loop must know between two steps.

    `awaiting_results`: there are tool results that no text has answered yet. `unread` are the
    inputs among `entries`, until a call has taken them along.
    """

    model_config = ConfigDict(extra="forbid")

    head: Head | None = None
    iteration: int = 0
    entries: list[Entry] = []
    tallies: Tallies = Tallies()
    batch: Batch | None = None
    deferred: Ref | None = None
    nudged: bool = False
    awaiting_results: bool = False
    compacted: bool = False
    model_index: int = 0
    continued: bool = False
    pieces: list[str] = []
    record: IterationRecord | None = None
    unwritten: list[IterationRecord] = []
    ending: Ending | None = None
    tools_succeeded: bool = False
    unread: list[PendingInput] = []


class Reply(Frozen):
    """A model's reply, reduced to what decides."""

    text: Ref | None
    calls: tuple[CallAsked, ...]
    stop_reason: str

    @property
    def has_text(self) -> bool:
        """Whether there is text that is not blank."""
        return self.text is not None and self.text.bytes > 0


# Of a conversation inside an iteration; no run ends for it.
SHARE_USED = "share_used"


class Limits(Frozen):
    """The limits as they stand after a reply was paid for.

    `share_used`: the part of the budget that is meant for this conversation is used up.
    `spent` names an exhausted dimension as an ordinary call sees it, `spent_whole` as it is with
    the wrap-up reserve open; `wrap_up` says whether a forced text call fits.
    """

    last_iteration: bool
    spent: str | None = None
    spent_whole: str | None = None
    wrap_up: bool = True
    inputs_waiting: bool = False
    share_used: bool = False


class RunCalls(Frozen):
    """Carry out the tool calls."""

    type: Literal["run_calls"]


class AnswerWith(Frozen):
    """End with a text: the reply's, the deferred one, or the fallback."""

    type: Literal["answer"]
    source: Literal["reply", "deferred", "fallback"]
    outcome: Outcome
    reason: str


class ForceText(Frozen):
    """Make one call with tools off, and end with what it says."""

    type: Literal["force_text"]
    ending: Ending
    drop_calls: bool = False


class GoOn(Frozen):
    """Call the model again: nudged, paused by the provider, or with new input."""

    type: Literal["go_on"]
    why: Literal["nudge", "pause_turn", "input"]


class Refuse(Frozen):
    """The model refused: another model, or the end."""

    type: Literal["refused"]


Next = RunCalls | AnswerWith | ForceText | GoOn | Refuse


def after_reply(reply: Reply, state: TurnState, *, limits: Limits, turns: Turns) -> Next:
    """What follows a reply (agent spec: one iteration, steps 6 to 8)."""
    if reply.stop_reason == "refusal":
        return Refuse(type="refused")
    text_only = reply.has_text and not reply.calls
    if text_only and limits.spent_whole is not None:
        return _answer("reply", "out_of_budget", limits.spent_whole)
    if not text_only and limits.spent is not None:
        return _out_of_budget(state, limits, dimension=limits.spent)
    if reply.calls:
        return RunCalls(type="run_calls")
    if reply.stop_reason == "pause_turn" and not limits.last_iteration:
        return GoOn(type="go_on", why="pause_turn")
    return _text_path(reply, state, limits=limits, turns=turns)


def after_calls(state: TurnState, *, limits: Limits, turns: Turns) -> ForceText | None:
    """What follows a finished batch: forced text at the last strike or iteration, else go on."""
    if state.tallies.strikes >= turns.max_illegal_strikes:
        ending = Ending(outcome="tool_misuse", reason="illegal_tool")
        return ForceText(type="force_text", ending=ending)
    if limits.last_iteration or limits.share_used:
        reason = "max_iterations" if limits.last_iteration else SHARE_USED
        return ForceText(type="force_text", ending=Ending(outcome="best_effort", reason=reason))
    return None


def must_end(state: TurnState, ending: Ending, *, wrap_up: bool) -> AnswerWith | ForceText:
    """How a loop ends that may not make another ordinary call."""
    if state.awaiting_results and wrap_up:
        return ForceText(type="force_text", ending=ending)
    source = "deferred" if state.deferred is not None else "fallback"
    return AnswerWith(type="answer", source=source, outcome=ending.outcome, reason=ending.reason)


def _text_path(reply: Reply, state: TurnState, *, limits: Limits, turns: Turns) -> Next:
    if reply.has_text:
        if limits.inputs_waiting and not limits.last_iteration:
            return GoOn(type="go_on", why="input")
        return _answer("reply", "accepted", "text_answer")
    if state.deferred is not None:
        return _answer("deferred", "accepted", "text_answer")
    if turns.nudge_on_empty and not state.nudged and not limits.last_iteration:
        return GoOn(type="go_on", why="nudge")
    return _answer("fallback", "no_output", "no_output")


def _out_of_budget(state: TurnState, limits: Limits, *, dimension: str) -> Next:
    ending = Ending(outcome="out_of_budget", reason=dimension)
    if state.awaiting_results and limits.wrap_up:
        return ForceText(type="force_text", ending=ending, drop_calls=True)
    source = "deferred" if state.deferred is not None else "fallback"
    return _answer(source, "out_of_budget", dimension)


def _answer(
    source: Literal["reply", "deferred", "fallback"], outcome: Outcome, reason: str
) -> AnswerWith:
    return AnswerWith(type="answer", source=source, outcome=outcome, reason=reason)
