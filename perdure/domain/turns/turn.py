"""The turn loop's state, and the one function that says what follows a model's reply."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from perdure.domain.evaluation.outcomes import Outcome
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.llm.attachments import Attachment
from perdure.domain.llm.requests import CUT_SHORT, UNFINISHED
from perdure.domain.llm.transcript import ToolOutcome, TranscriptRef
from perdure.domain.turns.entries import Entry
from perdure.domain.turns.guidance import PendingInput
from perdure.domain.turns.output_schema import NOT_LOOKED_AT
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.repeated_tool_calls import ToolCounters
from perdure.domain.turns.settings import Turns
from perdure.domain.turns.tool_call_rules import PlannedCall, RequestedCall

# How many replies in a row may be cut short; each gets twice the room of the one before.
MOST_CUTS = 3
SCHEMA_UNMET = "schema_unmet"
# A stop reason that announces a call.
ANNOUNCES_CALL = "tool_use"


class CallOutcome(FrozenModel):
    """A call of the current batch that has its result.

    `gone` means that its host knows the tool no longer, which counts like a tool not on offer.
    `attachments` are images and PDFs that the model is shown with it.
    """

    call_id: str
    outcome: ToolOutcome
    ref: BlobRef | None = None
    note: str = ""
    ms: int = 0
    number: float | None = None
    gone: bool = False
    attachments: tuple[Attachment, ...] = ()


class Batch(BaseModel):
    """The calls of one reply while they are carried out; survives continue-as-new."""

    model_config = ConfigDict(extra="forbid")

    planned: list[PlannedCall] = []
    settled: dict[str, CallOutcome] = {}
    gates: dict[str, str] = {}

    @property
    def pending_calls(self) -> list[PlannedCall]:
        """Calls without a result, in call order."""
        return [entry for entry in self.planned if entry.call.id not in self.settled]


class Ending(FrozenModel):
    """Why the turn loop must end, before its last text is there."""

    outcome: Outcome
    reason: str
    detail: str = ""


class TurnState(BaseModel):
    """Everything a turn loop must know between two steps.

    `awaiting_results`: there are tool results that no text has answered yet. `unread` are the
    inputs among `entries`, until a call has taken them along. `answer` is what was said so far of
    an answer that goes on in the next reply, joined to it by `seam`; `deferred_cut`: the deferred
    text is such a part. `cuts` counts replies in a row that were cut short, `cut_call` names the
    tool whose call was cut out of the newest one. `misfits` say by its address how a text misses
    the run's output schema; `reasked`: the model was asked again for one that fits.
    """

    model_config = ConfigDict(extra="forbid")

    head: TranscriptRef | None = None
    iteration: int = 0
    entries: list[Entry] = []
    tallies: ToolCounters = ToolCounters()
    batch: Batch | None = None
    deferred: BlobRef | None = None
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
    answer: BlobRef | None = None
    seam: str = ""
    deferred_cut: bool = False
    cuts: int = 0
    cut_call: str = ""
    misfits: dict[str, tuple[str, ...]] = {}
    reasked: bool = False

    def note_misfits(self, text: BlobRef | None, misfits: tuple[str, ...] | None) -> None:
        """Remember what is wrong with a text; of earlier texts only the last is kept."""
        if text is not None and misfits is not None:
            # The one before may be the deferred text, which can still become the answer.
            last = dict(list(self.misfits.items())[-1:])
            self.misfits = {**last, text.hash: misfits}

    def misfits_of(self, text: BlobRef | None) -> tuple[str, ...]:
        """What is wrong with a text as a value of the schema; nothing for one that fits."""
        return NOT_LOOKED_AT if text is None else self.misfits.get(text.hash, NOT_LOOKED_AT)


class Reply(FrozenModel):
    """A model's reply, reduced to what decides; `cut_call` names a tool whose call was cut.

    `misfits` say how its text misses the run's output schema; None without one.
    """

    text: BlobRef | None
    calls: tuple[RequestedCall, ...]
    stop_reason: str
    cut_call: str = ""
    misfits: tuple[str, ...] | None = None

    @property
    def has_text(self) -> bool:
        """Whether there is text that is not blank."""
        return self.text is not None and self.text.bytes > 0

    @property
    def cut(self) -> bool:
        """Whether a limit cut it short."""
        return self.stop_reason in CUT_SHORT or bool(self.cut_call)

    @property
    def unfinished(self) -> bool:
        """Whether the reply is incomplete: truncated, or paused by the provider."""
        return self.cut or self.stop_reason in UNFINISHED


# It ends a conversation inside an iteration, never a run.
SHARE_USED = "share_used"


class Limits(FrozenModel):
    """The limits as they stand after a reply was paid for.

    `continues`: what was cut short is gone on with; else it is taken as it is, and told as cut.
    `structured`: the answer is to fit the run's output schema.
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
    continues: bool = True
    structured: bool = False


class RunCalls(FrozenModel):
    """Carry out the tool calls."""

    type: Literal["run_calls"]


class AnswerWith(FrozenModel):
    """End with a text: the reply's, the deferred one, or the fallback."""

    type: Literal["answer"]
    source: Literal["reply", "deferred", "fallback"]
    outcome: Outcome
    reason: str


class ForceText(FrozenModel):
    """Make one call with tools off, and end with what it says.

    It is made where tool results wait for a text, or where the model was kept from answering
    (`anyway`); with `finish` it brings an answer to its end that was cut short.
    """

    type: Literal["force_text"]
    ending: Ending
    drop_calls: bool = False
    anyway: bool = False
    finish: bool = False


Why = Literal["nudge", "pause_turn", "input", "cut_text", "cut_call", "lost_call", "misfit"]


class Continue(FrozenModel):
    """Call the model again: nudged, after a reply that was cut or paused, or with new input."""

    type: Literal["go_on"]
    why: Why


class Refuse(FrozenModel):
    """The model refused: another model, or the end."""

    type: Literal["refused"]


Next = RunCalls | AnswerWith | ForceText | Continue | Refuse


def after_reply(reply: Reply, state: TurnState, *, limits: Limits, turns: Turns) -> Next:
    if reply.stop_reason == "refusal":
        return Refuse(type="refused")
    text_only = reply.has_text and not reply.calls
    # A reply in text alone ends the run, so it may use the whole limit. One with tool calls must
    # leave the wrap-up reserve for the text that has to follow.
    if text_only and limits.spent_whole is not None:
        return _answer("reply", "out_of_budget", limits.spent_whole)
    if limits.spent is not None and (not text_only or reply.unfinished):
        return _out_of_budget(reply, state, limits, dimension=limits.spent)
    if reply.calls:
        return RunCalls(type="run_calls")
    if reply.unfinished and limits.continues:
        return _unfinished(reply, state, limits)
    # Once only: `cuts` counts it, and a server that ends every reply so would be asked for ever.
    announced = reply.stop_reason == ANNOUNCES_CALL and not state.cuts
    if announced and not limits.last_iteration:
        return Continue(type="go_on", why="lost_call")
    return _text_path(reply, state, limits=limits, turns=turns)


def _unfinished(reply: Reply, state: TurnState, limits: Limits) -> Next:
    """What follows a reply that stopped before its end: another call, if one is permitted."""
    if not reply.cut and not limits.last_iteration:
        return Continue(type="go_on", why="pause_turn")
    if state.cuts < MOST_CUTS and not limits.last_iteration:
        if limits.inputs_waiting and reply.has_text:
            return Continue(type="go_on", why="input")
        return Continue(type="go_on", why="cut_call" if reply.cut_call else "cut_text")
    ending = Ending(
        outcome="best_effort", reason="max_iterations" if limits.last_iteration else "output_limit"
    )
    if reply.cut_call:
        return ForceText(type="force_text", ending=ending, anyway=True)
    if reply.has_text:
        return _answer("reply", ending.outcome, ending.reason)
    if state.deferred is not None:
        return _answer("deferred", ending.outcome, ending.reason)
    return _answer("fallback", "no_output", "no_output")


def after_calls(state: TurnState, *, limits: Limits, turns: Turns) -> ForceText | None:
    """What follows a finished batch: forced text at the last strike or iteration, else go on."""
    if state.tallies.strikes >= turns.max_illegal_strikes:
        ending = Ending(outcome="tool_misuse", reason="illegal_tool")
        return ForceText(type="force_text", ending=ending)
    if limits.last_iteration or limits.share_used:
        reason = "max_iterations" if limits.last_iteration else SHARE_USED
        return ForceText(type="force_text", ending=Ending(outcome="best_effort", reason=reason))
    return None


def ending_step(state: TurnState, ending: Ending, *, wrap_up: bool) -> AnswerWith | ForceText:
    """How a loop ends that may not make another ordinary call."""
    if wrap_up and (state.awaiting_results or state.cuts or state.answer is not None):
        unfinished = state.answer is not None
        return ForceText(type="force_text", ending=ending, anyway=True, finish=unfinished)
    source = "deferred" if state.deferred is not None else "fallback"
    return AnswerWith(type="answer", source=source, outcome=ending.outcome, reason=ending.reason)


def _text_path(reply: Reply, state: TurnState, *, limits: Limits, turns: Turns) -> Next:
    if reply.has_text:
        if limits.inputs_waiting and not limits.last_iteration:
            return Continue(type="go_on", why="input")
        if not limits.structured or reply.misfits == ():
            return _answer("reply", "accepted", "text_answer")
        return _unfit("reply", state, limits)
    if state.answer is not None and state.deferred_cut:
        # An empty reply is no proof that the text which was cut before it was whole.
        return _unfinished(Reply(text=None, calls=(), stop_reason="max_tokens"), state, limits)
    if state.deferred is not None:
        if limits.structured:
            return _unfit("deferred", state, limits)
        return _answer("deferred", "accepted", "text_answer")
    if turns.nudge_on_empty and not state.nudged and not limits.last_iteration:
        return Continue(type="go_on", why="nudge")
    return _answer("fallback", "no_output", "no_output")


def _unfit(source: Literal["reply", "deferred"], state: TurnState, limits: Limits) -> Next:
    """An answer that misses the schema is asked for once more, and then never accepted."""
    if state.reasked or limits.last_iteration or limits.spent is not None:
        return _answer(source, "best_effort", SCHEMA_UNMET)
    return Continue(type="go_on", why="misfit")


def _out_of_budget(reply: Reply, state: TurnState, limits: Limits, *, dimension: str) -> Next:
    ending = Ending(outcome="out_of_budget", reason=dimension)
    text_only = reply.has_text and not reply.calls
    if limits.wrap_up and text_only and not reply.cut_call:
        return ForceText(type="force_text", ending=ending, anyway=True, finish=True)
    if limits.wrap_up and (state.awaiting_results or reply.cut_call):
        # The calls are never made, and providers refuse a conversation with calls that have no
        # result.
        return ForceText(type="force_text", ending=ending, drop_calls=True, anyway=True)
    if text_only:
        return _answer("reply", "out_of_budget", dimension)
    source = "deferred" if state.deferred is not None else "fallback"
    return _answer(source, "out_of_budget", dimension)


def _answer(
    source: Literal["reply", "deferred", "fallback"], outcome: Outcome, reason: str
) -> AnswerWith:
    return AnswerWith(type="answer", source=source, outcome=outcome, reason=reason)
