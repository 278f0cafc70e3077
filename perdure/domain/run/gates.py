"""Gates: open questions to people, their answers, and what happens when nobody answers."""

import re
from datetime import datetime, timedelta
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from perdure.domain.budget.accounting import MOST_SECONDS
from perdure.domain.evaluation.human_scores import BadScores, read_scores
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.plain_text import folded, visible
from perdure.domain.foundation.refs import BlobRef

GateKind = Literal["question", "escalation", "tool_approval", "budget", "review", "blocked"]

APPROVE = "approve"
DENY = "deny"
RAISE = "raise"
CHOICES: dict[GateKind, tuple[str, ...]] = {
    "tool_approval": (APPROVE, DENY),
    "escalation": ("continue", "accept", "stop"),
    "budget": (RAISE, "end"),
    "blocked": ("retry", "end"),
    "question": (),
    "review": (),
}
PROMPT_LIMIT = 4_000
CUT_CHARACTERS = 100
WAIT = "wait"
SAFE = "safe"
END = "end"
DEFAULT_PREFIX = "default:"
NAMED_CHARACTERS = 4
# A run that nobody looks after ends: its questions wait a week, and it lasts a month at most.
WEEK_S = 7 * 86_400
_BOUND = re.compile(rf"(?P<id>g[0-9]+)-(?P<begins>[0-9a-f]{{{NAMED_CHARACTERS},64}})")
NO_SUCH_GATE = "there is no gate"


class GateSettings(FrozenModel):
    """The `gates:` block: how long questions wait, in seconds (None: for ever), and what then.

    `on_expiry` is `safe` (a call is denied, any other question ends the run with its best),
    `wait`, `end`, or `default:` and a choice; approvals of calls then deny.
    """

    # A run that nobody looks after must come to its end, so questions do not wait for ever.
    timeout_s: float | None = Field(default=WEEK_S, gt=0, le=MOST_SECONDS)
    on_expiry: Annotated[str, Field(pattern=r"^(safe|wait|end|default:.+)$")] = SAFE

    @field_validator("on_expiry")
    @classmethod
    def _approves_nothing(cls, policy: str) -> str:
        if folded(policy.removeprefix(DEFAULT_PREFIX)).strip().casefold() == APPROVE:
            raise ValueError(
                "safe, wait, end, or default: and another choice. A call that nobody "
                "approved in time is denied, so `approve` is no default"
            )
        return policy

    def deadline(self, opened: datetime) -> datetime | None:
        """When a gate opened now expires."""
        return None if self.timeout_s is None else opened + timedelta(seconds=self.timeout_s)


class GateAnswer(FrozenModel):
    """Who answered what, when; `text` is free text beside a choice, or the answer itself."""

    choice: str | None
    text: str | None
    by: str
    at: datetime
    request_id: str | None = None
    expired: bool = False

    @property
    def words(self) -> str:
        """Choice and text in one line, for questions whose answer is what was said."""
        return said_in(self.choice, self.text)


class Gate(FrozenModel):
    """One question. Its id is run-wide (`g1`, `g2`, …), its deadline absolute.

    `name` is what people call it. Where something is approved, it says what (`g1-7f3a`): the id
    and how the hash of the arguments begins, so an answer by that name holds for these alone.
    `scores` are the dimensions that the answer must score; `details` is the text of what is asked
    about where the prompt has no room for all of it. `within_iteration`: the iteration in progress
    is counted already, so it may finish though it is the last permitted one.
    """

    id: str
    name: str = ""
    kind: GateKind
    prompt: str
    choices: tuple[str, ...]
    opened_at: datetime
    free_text: bool = False
    deadline: datetime | None = None
    on_expiry: str = WAIT
    args_hash: str | None = None
    subject: str | None = None
    details: BlobRef | None = None
    scores: tuple[str, ...] = ()
    within_iteration: bool = Field(default=False, exclude_if=lambda within: not within)
    answer: GateAnswer | None = None

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: object) -> object:
        if not isinstance(given, dict) or given.get("name") or "id" not in given:
            return given
        return {**given, "name": bound_name(given["id"], given.get("args_hash"))}

    @property
    def open(self) -> bool:
        """Whether nobody has answered yet."""
        return self.answer is None

    def is_meant(self, named: str) -> bool:
        """Whether a name fits what is asked about: a reset run asks anew under the same number."""
        begins = read_name(named).begins
        return begins is None or (self.args_hash or "").startswith(begins)


class GateName(NamedTuple):
    """A parsed gate name: the id, and the first digits of the arguments' hash."""

    id: str
    begins: str | None = None


def bound_name(id: str, args_hash: str | None) -> str:
    """The full name of a gate: its id, with the hash prefix if it is about arguments."""
    # Four signs suffice: they guard against stale views (a reset run asks anew under the same
    # number), not against guessing.
    return id if args_hash is None else f"{id}-{args_hash[:NAMED_CHARACTERS]}"


def prompt_of(text: str) -> str:
    """A prompt as people read it: nothing hidden, and what is cut says so."""
    seen = visible(text)
    if len(seen) <= PROMPT_LIMIT:
        return seen
    left_out = len(seen) - PROMPT_LIMIT + CUT_CHARACTERS
    kept = seen[: PROMPT_LIMIT - CUT_CHARACTERS]
    return f"{kept}\n[… {left_out:,} more characters; `perdure transcript` of the run has them]"


def said_in(choice: str | None, text: str | None) -> str:
    """What an answer says, whether people chose it, wrote it, or both."""
    return " ".join(filter(None, (choice, text)))


def read_name(given: str) -> GateName:
    """The id and the beginning of a hash in a name; what has another form is an id."""
    name = given.strip().lower()
    found = _BOUND.fullmatch(name)
    return GateName(name) if found is None else GateName(found["id"], found["begins"])


def refusal(
    gate: Gate | None, *, named: str, choice: str | None, text: str | None, args_hash: str | None
) -> str | None:
    """Why an answer is not taken, as a sentence, or None when it is valid.

    Args:
        gate: the gate that `named` means, None where there is none.
        named: what the answer calls the gate.
        choice: one of its choices, if any.
        text: words, beside a choice or alone.
        args_hash: the hash of what is approved, where the name does not say it.
    """
    begins = read_name(named).begins
    # A name with a hash means one call. After a reset a question may have that call's number, and
    # must not take an answer that approves.
    if gate is None or (begins is not None and gate.args_hash is None):
        return f"{NO_SUCH_GATE} {named!r} in this run; `perdure gates` lists the open ones"
    if gate.answer is not None:
        said = gate.answer.choice or gate.answer.text
        return f"gate {gate.name} was already answered with {said!r} by {gate.answer.by}"
    if gate.args_hash is not None and not _means(gate.args_hash, begins, args_hash):
        return f"gate {gate.id} asks about other arguments; look at {gate.name} before you answer"
    if gate.kind == "tool_approval" and choice == APPROVE and not (begins or args_hash):
        return (
            f"gate {gate.id}: an approval names what it approves: the gate as {gate.name}, or "
            f"args_hash {gate.args_hash}"
        )
    if choice is not None and gate.choices and choice not in gate.choices:
        return f"gate {gate.id}: {choice!r} is not one of {', '.join(gate.choices)}"
    if choice is None and not (gate.free_text and text):
        wanted = ", ".join(gate.choices) or "a text"
        return f"gate {gate.id} needs {wanted}"
    if gate.scores:
        read = read_scores(said_in(choice, text), gate.scores, strictly=False)
        return f"gate {gate.id}: {read.problem}" if isinstance(read, BadScores) else None
    return None


def _means(hash: str, begins: str | None, args_hash: str | None) -> bool:
    return hash.startswith(begins or "") and args_hash in {None, hash}


def is_expired(gate: Gate, now: datetime) -> bool:
    """Whether the deadline of an open gate has passed."""
    # `>=`: the timer that wakes the run is set for the deadline itself.
    return gate.open and gate.deadline is not None and now >= gate.deadline


def expiry_choice(gate: Gate) -> str | None:
    """What an expired gate does: a choice, `end`, or None to go on waiting."""
    if gate.on_expiry == WAIT:
        return None
    if gate.on_expiry == END:
        return END
    if gate.kind == "tool_approval":
        # Whatever the policy names, nobody's absence approves a call.
        return DENY
    # No decision is taken for a person: `accept` would claim something, `continue` spend something.
    if gate.on_expiry == SAFE:
        return END
    return gate.on_expiry.removeprefix(DEFAULT_PREFIX)
