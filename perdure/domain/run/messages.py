"""Inputs of signals, updates and queries: one object per verb, and how much one may send.

Each carries `by` (who asks) and `request_id` (a repeated one has one effect).

A message above a size limit is refused with a reason, and the run goes on.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.names import LONGEST_RUN_ID
from perdure.domain.foundation.plain_text import require_not_blank
from perdure.domain.foundation.refs import BlobRef

NAME_CHARACTERS = 256
# A question of a run below is called by that run too: `RUN:g1-7f3a`.
GATE_CHARACTERS = LONGEST_RUN_ID + NAME_CHARACTERS
CHOICE_CHARACTERS = 1_024


class Message(FrozenModel):
    """What every verb carries."""

    by: str = Field(default="unknown", max_length=NAME_CHARACTERS)
    request_id: str | None = Field(default=None, max_length=NAME_CHARACTERS)


class Pause(Message):
    """Start no new step; a step in flight finishes."""


class Resume(Message):
    """Go on where a paused run stood."""


class Stop(Message):
    """End with the best result: after the step in flight, or at once."""

    mode: Literal["graceful", "now"] = "graceful"


class Escalate(Message):
    """Open an escalation gate at the next checkpoint."""

    note: str = ""


class Answer(Message):
    """Answer a gate by choice, by text, or both.

    An approval names what it approves: the gate by its whole name (`g1-7f3a`), or `args_hash`.
    """

    gate: str = Field(max_length=GATE_CHARACTERS)
    choice: str | None = Field(default=None, max_length=CHOICE_CHARACTERS)
    text: str | None = None
    args_hash: str | None = None


class ShortAnswer(Message):
    """An answer whose signal is its choice: `approve` or `deny`, with the gate's whole name."""

    gate: str = Field(max_length=GATE_CHARACTERS)
    text: str | None = None
    args_hash: str | None = None


class Amend(Message):
    """Change budget limits, the rubric, or give guidance for all later prompts; or edit the task.

    `remove` takes back what was said, by the numbers that status lists; `remove_texts` by its
    words, as a run tells those that work for it, where the same words have other numbers.
    `goal` and `max_iterations` replace what the specification says, `metadata` is merged into it.
    """

    budget: dict[str, JsonValue] = {}
    rubric: list[JsonValue] | None = None
    remove: tuple[int, ...] = ()
    remove_texts: tuple[str, ...] = ()
    guidance: str | None = None
    goal: Annotated[str, Field(min_length=1), AfterValidator(require_not_blank)] | None = None
    max_iterations: int | None = Field(default=None, ge=1, le=100_000)
    metadata: dict[str, JsonValue] | None = None

    @property
    def has_edits(self) -> bool:
        """Whether it changes the specification itself."""
        given = (self.goal, self.max_iterations, self.metadata)
        return any(value is not None for value in given)


class Retry(Message):
    """Go on after a failure, with a note for the next prompt; it answers no gate."""

    note: str = ""


class AddInput(Message):
    """A message from outside, by text or, above 8 KiB, by reference."""

    text: str = ""
    ref: BlobRef | None = None


class EventsQuery(FrozenModel):
    """Events after `since`."""

    since: int = Field(default=0, ge=0)


class Receipt(FrozenModel):
    """What an accepted verb did."""

    verb: str
    lifecycle: str
    note: str = ""


AnyMessage = Pause | Resume | Stop | Escalate | Answer | Amend | Retry | AddInput
Verb = Literal["pause", "resume", "stop", "escalate", "answer", "amend", "retry", "add_input"]
VERBS: tuple[Verb, ...] = get_args(Verb)
MESSAGES: Mapping[str, type[AnyMessage]] = {
    "pause": Pause,
    "resume": Resume,
    "stop": Stop,
    "escalate": Escalate,
    "answer": Answer,
    "amend": Amend,
    "retry": Retry,
    "add_input": AddInput,
}
VERB_OF: Mapping[type[AnyMessage], Verb] = {MESSAGES[verb]: verb for verb in VERBS}


TEXT_LIMIT_BYTES = 8 * 1024
AMENDMENT_LIMIT_BYTES = 64 * 1024
WAITING_KEPT = 100
WAITING_CHARACTERS = 128 * 1024
# The server takes 2,000 updates for one execution, and only continue-as-new resets the count.
FLOOD = 1_500
# Whoever floods a run must not keep others from ending it, or from letting it go on.
NEVER_FLOODED = frozenset({"stop", "resume", "answer"})


def content_digest(message: AnyMessage) -> str:
    """What a message asks for, in 16 characters, without its sender and request id."""
    told = message.model_dump(mode="json", exclude={"by", "request_id"})
    # Kept in the state: in another form, a repeat would be refused as another message.
    asked = json.dumps([VERB_OF[type(message)], told], sort_keys=True)
    return hashlib.sha256(asked.encode()).hexdigest()[:16]


def is_too_long(text: str | None) -> bool:
    """Whether a text is above what a signal may carry (8 KiB)."""
    # `replace`: half a character in a text must not raise here.
    return text is not None and len(text.encode(errors="replace")) > TEXT_LIMIT_BYTES


def size_refusal(message: AnyMessage) -> str | None:
    """Why an amendment is not carried, when it is above what a state may grow by at once."""
    told = json.dumps(message.model_dump(mode="json", exclude_defaults=True))
    if len(told) <= AMENDMENT_LIMIT_BYTES:
        return None
    return "the amendment is above 64 KiB; a run carries it to its end"


def waiting_refusal(*waiting: str) -> str | None:
    """Why one more text is not taken, when more would wait than a prompt could hold.

    Args:
        waiting: the texts that no model call has seen yet, with the new one.
    """
    if len(waiting) > WAITING_KEPT:
        return f"{WAITING_KEPT} messages wait to be read already; send it after the next model call"
    if sum(map(len, waiting)) > WAITING_CHARACTERS:
        return (
            "more than 128 thousand characters would wait to be read; send it after the next model"
            " call, or as a file with `perdure add`"
        )
    return None


def flood_refusal(verb: str, *, handled: int) -> str | None:
    """Why an update is refused before it costs history; what ends or frees a run always passes.

    Args:
        verb: what is asked.
        handled: messages since this execution began; it makes room when the step in flight ends.
    """
    if handled < FLOOD or verb in NEVER_FLOODED:
        return None
    return f"{handled:,} messages came since the run last made room; send it after the next step"
