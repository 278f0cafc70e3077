"""What people may ask of a run, when it is allowed, and what it changes.

One state object: `verb_refusal` tells why a verb is not allowed (updates reject with it, signals
note it), `apply_verb` applies an allowed one. Nothing here waits or starts anything.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal, assert_never

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from perdure.domain.budget.accounting import Budget
from perdure.domain.budget.amend import amend
from perdure.domain.evaluation.outcomes import Lifecycle
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.plain_text import clipped
from perdure.domain.foundation.problems import problems_of, render_problems
from perdure.domain.run import gates as gating
from perdure.domain.run.gates import Gate, GateAnswer
from perdure.domain.run.messages import (
    AddInput,
    Amend,
    Answer,
    AnyMessage,
    Escalate,
    Pause,
    Resume,
    Retry,
    Stop,
    content_digest,
    is_too_long,
    size_refusal,
    waiting_refusal,
)
from perdure.domain.turns.guidance import PendingInput, Said, number_refusal, standing_refusal

Phase = Literal[
    "starting",
    "recalling",
    "planning",
    "executing",
    "evaluating",
    "deciding",
    "refining",
    "staging",
    "managing",
    "working",
    "waiting",
    "wrapping_up",
    "ended",
]

# Bounded: the control state travels whole through each continue-as-new.
REQUESTS_KEPT = 256
NOTES_KEPT = 20
NOTE_CHARACTERS = 500


class Amendment(FrozenModel):
    """The audit trail of one `amend`: who, when, what."""

    at: datetime
    by: str
    changes: Mapping[str, JsonValue]


def texts_or_addresses(inputs: Iterable[PendingInput]) -> tuple[str, ...]:
    """What was said, for a result: long texts by their address."""
    return tuple(given.text or (given.ref.hash if given.ref else "") for given in inputs)


class Control(BaseModel):
    """The control state of a run; it travels whole through continue-as-new."""

    model_config = ConfigDict(extra="forbid")

    paused: bool = False
    stop: Literal["graceful", "now"] | None = None
    stopped_by: str | None = None
    escalation: str | None = None
    gates: dict[str, Gate] = {}
    gates_opened: int = 0
    awaited: list[str] = []
    inputs: list[PendingInput] = []
    guidance: list[str] = []
    standing: list[Said] = []
    said_count: int = 0
    goal: str | None = None
    rubric: list[JsonValue] | None = None
    amendments: list[Amendment] = []
    requests: list[str] = []
    request_contents: dict[str, str] = {}
    refused_signals: list[str] = []
    refused_count: int = 0
    ended: bool = False

    @property
    def open_gates(self) -> tuple[Gate, ...]:
        """Questions that wait for a person, oldest first."""
        return tuple(gate for gate in self.gates.values() if gate.open)

    @property
    def unread(self) -> tuple[str, ...]:
        """What was said and no prompt has taken along yet."""
        return (*self.guidance, *(given.text for given in self.inputs))

    @property
    def unread_input(self) -> tuple[str, ...]:
        """What was added and nobody read."""
        return texts_or_addresses(self.inputs)

    @property
    def lifecycle(self) -> Lifecycle:
        """Running, paused or waiting; the end is the result's to say."""
        if self.paused:
            return "paused"
        return "waiting" if self.open_gates else "running"


class VerbEffect(FrozenModel):
    """What an applied verb means for the loop: an event to note, and a budget that changed."""

    event: Literal["paused", "resumed", "amended", "input_added", "gate_answered"] | None = None
    data: dict[str, JsonValue] = {}
    budget: Budget | None = None


def verb_refusal(
    state: Control,
    message: AnyMessage,
    *,
    budget: Budget,
    wall_time: float,
    inputs_allowed: bool,
    rubric_allowed: bool = True,
) -> str | None:
    """Why the verb is not allowed now, naming the state, or None."""
    if state.ended:
        return "the run has ended; after a failure `retry` goes on with it"
    if is_too_long(_text_of(message)):
        return "the text is above 8 KiB; send it with `perdure add`, which stores it as a blob"
    if isinstance(message, Amend) and (why := size_refusal(message)):
        return why
    match message:
        case Pause() | Resume() | Stop() | Escalate():
            return _refuse_transition(state, message)
        case Answer():
            return gating.refusal(
                gate_named(state, message.gate),
                named=message.gate,
                choice=message.choice,
                text=message.text,
                args_hash=message.args_hash,
            )
        case Amend():
            return _refuse_amend(
                state, message, budget=budget, wall_time=wall_time, rubric_allowed=rubric_allowed
            )
        case AddInput():
            return _refuse_input(state, message, inputs_allowed=inputs_allowed)
        case Retry():
            return _refuse_retry(state)
        case _:
            assert_never(message)


def is_repeat(state: Control, message: AnyMessage, request_id: str | None = None) -> bool:
    """Whether a message with this request id had its effect already."""
    name = message.request_id or request_id
    return name is not None and name in state.requests


def reused_id_refusal(state: Control, message: AnyMessage) -> str | None:
    """Why a message is not the repeat that its request id calls it, or None.

    A client that numbers its messages anew, or sends one id with all, would otherwise be told that
    a `stop` had its effect when it was the `pause` before.
    """
    name = message.request_id
    known = None if name is None else state.request_contents.get(name)
    if known is None or known == content_digest(message):
        return None
    return f"the request id {name!r} was used for another message; send this one with its own"


def apply_verb(
    state: Control,
    message: AnyMessage,
    *,
    now: datetime,
    budget: Budget,
    wall_time: float,
    request_id: str | None = None,
) -> VerbEffect:
    """Apply an allowed verb to the state, and remember its request id."""
    remember(state, message, request_id)
    match message:
        case Pause():
            state.paused = True
            return VerbEffect(event="paused", data={"by": message.by})
        case Resume():
            state.paused = False
            return VerbEffect(event="resumed", data={"by": message.by})
        case Stop():
            state.stop, state.stopped_by = message.mode, message.by
            return VerbEffect()
        case Escalate():
            state.escalation = message.note or "a person asked to look at this run"
            return VerbEffect()
        case Answer():
            return _answer(state, message, now=now)
        case Amend():
            return _amend(state, message, now=now, budget=budget, wall_time=wall_time)
        case AddInput():
            _stand(state, message.text, message.by)
            given = PendingInput(text=message.text, by=message.by, ref=message.ref)
            state.inputs = [*state.inputs, given]
            return VerbEffect(event="input_added", data={"by": message.by})
        case Retry():
            return VerbEffect()
        case _:
            assert_never(message)


def remember(state: Control, message: AnyMessage, request_id: str | None) -> None:
    """Note that a request had its effect; the newest are known, with what the sender's ids meant.

    An update without an id of its sender's goes by the server's, which the server looks after.
    """
    name = message.request_id or request_id
    if name is None:
        return
    state.requests = [*state.requests, name][-REQUESTS_KEPT:]
    if message.request_id is not None:
        contents = {**state.request_contents, message.request_id: content_digest(message)}
        state.request_contents = {one: contents[one] for one in state.requests if one in contents}


def note_refused(state: Control, verb: str, why: str) -> None:
    """Keep why a signal had no effect; status and panel show the newest ones, and count all."""
    state.refused_count += 1
    note = f"{verb}: {' '.join(why.split())}"
    state.refused_signals = [*state.refused_signals[1 - NOTES_KEPT :], note[:NOTE_CHARACTERS]]


def close_control(state: Control) -> None:
    """Refuse every verb from now on and close the open questions."""
    state.ended = True
    state.gates = {name: gate for name, gate in state.gates.items() if not gate.open}


def gate_named(state: Control, name: str) -> Gate | None:
    """The gate of this run with this name."""
    return state.gates.get(gating.read_name(name).id)


def _answer(state: Control, message: Answer, *, now: datetime) -> VerbEffect:
    gate = gate_named(state, message.gate)
    if gate is None:
        return VerbEffect()
    answer = GateAnswer(
        choice=message.choice,
        text=message.text,
        by=message.by,
        at=now,
        request_id=message.request_id,
    )
    state.gates = {**state.gates, gate.id: gate.model_copy(update={"answer": answer})}
    said = message.choice or (message.text or "")[:200]
    return VerbEffect(
        event="gate_answered",
        data={"gate": gate.name, "kind": gate.kind, "answer": said, "by": message.by},
    )


def _refuse_retry(state: Control) -> str:
    """An open run never retries: a question in it is a person's, who says so with `answer`."""
    asked = next((gate for gate in state.open_gates if "retry" in gate.choices), None)
    if asked is None:
        return f"the run is {state.lifecycle}; `retry` goes on after a failure"
    return (
        f"gate {asked.name} asks a person, and only `answer` answers it: "
        f"`perdure answer {asked.id} retry`, with your note as its text"
    )


def _amend(
    state: Control, message: Amend, *, now: datetime, budget: Budget, wall_time: float
) -> VerbEffect:
    changes = message.model_dump(mode="json", exclude={"by", "request_id"}, exclude_defaults=True)
    state.amendments = [
        *state.amendments,
        Amendment(at=now, by=message.by, changes=changes),
    ][-NOTES_KEPT:]
    # What is taken back before a prompt took it along is never told at all.
    gone = {said.text for said in state.standing if _taken_back(said, message)}
    state.standing = [said for said in state.standing if not _taken_back(said, message)]
    state.guidance = [text for text in state.guidance if text not in gone]
    state.inputs = [given for given in state.inputs if given.ref or given.text not in gone]
    if message.guidance:
        _stand(state, message.guidance, message.by)
        state.guidance = [*state.guidance, message.guidance]
    if message.rubric is not None:
        state.rubric = message.rubric
    amended = amend(budget, message.budget, wall_time=wall_time) if message.budget else None
    return VerbEffect(event="amended", data={"by": message.by, **changes}, budget=amended)


def _taken_back(said: Said, message: Amend) -> bool:
    return said.number in message.remove or said.text in message.remove_texts


def _stand(state: Control, text: str, by: str) -> None:
    """Make what was said hold for the rest of the run; a text by reference is read only once."""
    if not text:
        return
    state.said_count += 1
    state.standing = [*state.standing, Said(number=state.said_count, text=text, by=by)]


def _refuse_transition(state: Control, message: Pause | Resume | Stop | Escalate) -> str | None:
    match message:
        case Pause() if state.stop is not None:
            return "the run is stopping"  # a pause never holds up an end
        case Pause():
            return "the run is paused already" if state.paused else None
        case Resume():
            return None if state.paused else f"the run is {state.lifecycle}, not paused"
        case Stop():
            # A graceful stop may still become one at once, never the other way.
            stopping = state.stop in {"now", message.mode}
            return "the run is stopping already" if stopping else None
        case Escalate():
            return _refuse_escalation(state)


def _refuse_escalation(state: Control) -> str | None:
    if state.lifecycle != "running" or state.stop is not None:
        return f"the run is {'stopping' if state.lifecycle == 'running' else state.lifecycle}"
    if state.escalation is not None:
        return "the run asks at its next checkpoint already"
    # The loop clears what was asked when it reads the answer, which may come in the same task.
    if any(state.gates[name].kind == "escalation" for name in state.awaited if name in state.gates):
        return "an escalation was answered just now; ask again once the run has gone on"
    return None


def _refuse_amend(
    state: Control, message: Amend, *, budget: Budget, wall_time: float, rubric_allowed: bool
) -> str | None:
    removed = message.remove or message.remove_texts
    changes = message.budget or message.guidance or message.has_edits or removed
    if not changes and message.rubric is None:
        return "amend needs a budget, a rubric or guidance"
    if message.rubric is not None and not rubric_allowed:
        return "only a refine run takes another rubric while it goes on"
    if message.guidance and (why := waiting_refusal(*state.guidance, message.guidance)):
        return why
    # What is taken back makes room for what the same message says.
    left = [said for said in state.standing if not _taken_back(said, message)]
    if why := number_refusal(state.standing, message.remove):
        return why
    if why := standing_refusal(left, message.guidance):
        return why
    try:
        if message.rubric is not None:
            Rubric.model_validate(message.rubric)
        amend(budget, message.budget, wall_time=wall_time)
    # Of the rubric alone: `amend` has told its own in words, as a plain `ValueError`.
    except ValidationError as error:
        return clipped(
            render_problems(problems_of(error, message.rubric, root="rubric")), NOTE_CHARACTERS
        )
    except ValueError as error:
        return clipped(str(error), NOTE_CHARACTERS)
    return None


def _refuse_input(state: Control, message: AddInput, *, inputs_allowed: bool) -> str | None:
    if not inputs_allowed:
        return "a learning run reads what it was given alone; say it to the run it learns from"
    if not (message.text or message.ref):
        return "the input is empty"
    if why := standing_refusal(state.standing, message.text):
        return why
    return waiting_refusal(*(given.text for given in state.inputs), message.text)


def _text_of(message: AnyMessage) -> str | None:
    match message:
        case AddInput() | Answer():
            return message.text
        case Amend():
            return "".join(filter(None, (message.guidance, message.goal))) or None
        case Escalate() | Retry():
            return message.note
        case Pause() | Resume() | Stop():
            return None
