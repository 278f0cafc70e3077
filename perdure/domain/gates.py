"""Gates: open questions to people, their answers, and what happens when nobody answers."""

import hashlib
import json
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field, JsonValue, field_validator

from perdure.domain.base import Frozen
from perdure.domain.plain_text import folded
from perdure.domain.review import BadScores, read_scores

GateKind = Literal["question", "escalation", "tool_approval", "budget", "review", "blocked"]

APPROVE = "approve"
DENY = "deny"
CHOICES: dict[GateKind, tuple[str, ...]] = {
    "tool_approval": (APPROVE, DENY),
    "escalation": ("continue", "accept", "stop"),
    "budget": ("raise", "end"),
    "blocked": ("retry", "end"),
    "question": (),
    "review": (),
}
PROMPT_LIMIT = 4_000
WAIT = "wait"
END = "end"
DEFAULT_PREFIX = "default:"
NO_SUCH_GATE = "there is no gate"


class GateSettings(Frozen):
    """The `gates:` block: how long questions wait, in seconds (None: for ever), and what then.

    `on_expiry` is `wait`, `end`, or `default:` and a choice; approvals of calls then deny.
    """

    timeout_s: float | None = Field(default=None, gt=0)
    on_expiry: Annotated[str, Field(pattern=r"^(wait|end|default:.+)$")] = WAIT

    @field_validator("on_expiry")
    @classmethod
    def _approves_nothing(cls, policy: str) -> str:
        if folded(policy.removeprefix(DEFAULT_PREFIX)).strip().casefold() == APPROVE:
            raise ValueError(
                "allowed: wait, end, or default: and another choice. A call that nobody "
                "approved in time is denied, so `approve` is no default"
            )
        return policy

    def deadline(self, opened: datetime) -> datetime | None:
        """When a gate opened now expires."""
        return None if self.timeout_s is None else opened + timedelta(seconds=self.timeout_s)


class GateAnswer(Frozen):
    """Who answered what, when; `text` is free text beside a choice, or the answer itself."""

    choice: str | None
    text: str | None
    by: str
    at: datetime
    request_id: str | None = None
    expired: bool = False


class Gate(Frozen):
    """One question. Its id is run-wide (`g1`, `g2`, …), its deadline absolute.

    `scores` are the dimensions that the answer must score.
    """

    id: str
    kind: GateKind
    prompt: str
    choices: tuple[str, ...]
    opened_at: datetime
    free_text: bool = False
    deadline: datetime | None = None
    on_expiry: str = WAIT
    args_hash: str | None = None
    subject: str | None = None
    scores: tuple[str, ...] = ()
    answer: GateAnswer | None = None

    @property
    def open(self) -> bool:
        """Whether nobody has answered yet."""
        return self.answer is None


def arguments_hash(name: str, arguments: dict[str, JsonValue]) -> str:
    """The SHA-256 of a tool call as it would run: name and canonical arguments."""
    canonical = json.dumps([name, arguments], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def refusal(
    gate: Gate | None, *, gate_id: str, choice: str | None, text: str | None, args_hash: str | None
) -> str | None:
    """Why an answer is not taken, as a sentence, or None when it is valid."""
    if gate is None:
        return f"{NO_SUCH_GATE} {gate_id!r} in this run; `perdure gates` lists the open ones"
    if gate.answer is not None:
        said = gate.answer.choice or gate.answer.text
        return f"gate {gate.id} was already answered with {said!r} by {gate.answer.by}"
    if gate.args_hash is not None and args_hash is not None and args_hash != gate.args_hash:
        return f"gate {gate.id} asks about other arguments (hash {gate.args_hash[:12]}…)"
    if gate.kind == "tool_approval" and choice == APPROVE and args_hash is None:
        return f"gate {gate.id}: an approval must carry args_hash {gate.args_hash}"
    if choice is not None and gate.choices and choice not in gate.choices:
        return f"gate {gate.id}: {choice!r} is not one of {', '.join(gate.choices)}"
    if choice is None and not (gate.free_text and text):
        wanted = ", ".join(gate.choices) or "a text"
        return f"gate {gate.id} needs {wanted}"
    if gate.scores:
        read = read_scores(" ".join(filter(None, (choice, text))), gate.scores)
        return f"gate {gate.id}: {read.problem}" if isinstance(read, BadScores) else None
    return None


def expired(gate: Gate, now: datetime) -> bool:
    """Whether the deadline of an open gate has passed."""
    return gate.open and gate.deadline is not None and now >= gate.deadline


def expiry_choice(gate: Gate) -> str | None:
    """What an expired gate does: a choice, `end`, or None to go on waiting."""
    if gate.on_expiry == WAIT:
        return None
    if gate.on_expiry == END:
        return END
    if gate.kind == "tool_approval":
        return DENY
    return gate.on_expiry.removeprefix(DEFAULT_PREFIX)
