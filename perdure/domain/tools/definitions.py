"""What a tool is, who may call it, and what a call brings back."""

import hashlib
import json
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, JsonValue

from perdure.domain.budget.accounting import Reservation
from perdure.domain.foundation.base import ActivityMessage, FrozenModel
from perdure.domain.foundation.plain_text import clipped
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.llm.transcript import ToolOutcome
from perdure.domain.tools.mcp_servers import PinnedServer

AccessClass = Literal["read", "write", "execute", "network", "person"]
AccessLevel = Literal["full", "readonly-shell", "readonly", "minimal"]

DEFAULT_TIMEOUT_S = 30.0
# The tool that reads on in what is shown in part.
READ_ON = "artifact.read"
EXCERPT_CHARACTERS = 8_000
BRIEF_CHARACTERS = 48  # it travels in the history of each call
OUTPUT_CAP_BYTES = 50 * 1024
OUTPUT_CAP_LINES = 2_000
# The most that a foreign worker is given in one call: more would travel by reference, and it has no
# store to resolve one.
HANDED_OVER_BYTES = 128 * 1024


class ActivityTarget(FrozenModel):
    """A foreign activity that is a tool or a check: its type, its queue, its options.

    Times are seconds. `attempts` are those that its own retry policy allows, 0 for no limit.
    """

    type: str
    queue: str = ""
    schedule_to_close_s: float | None = None
    heartbeat_s: float | None = None
    # Once, where nothing is said: the default of Temporal is to try for ever.
    attempts: int = 1
    first_pause_s: float = 1.0
    pause_factor: float = 2.0
    longest_pause_s: float | None = None
    never_retried: tuple[str, ...] = ()


class ToolDefinition(FrozenModel):
    """A tool as it is pinned for a run.

    `parameters` is a JSON Schema of an object. `idempotent` tools may be retried after a lost
    attempt. `exclusive` tools run alone. `meta` tools do not heal strikes. `inline_arguments`
    asks for the arguments in the model report, because the workflow itself acts on them. `shared`
    tools keep what the runs of a session or project share, so that only such runs are offered them.
    `unavailable` says why a tool that exists cannot be used on this worker. `on_request` tools
    start or steer other runs: only a task that names them is offered them. `tags` are words that a
    task's `tools.filter` may go by. `activity` is scheduled by the loop, and never run here.
    """

    name: str
    description: str
    parameters: dict[str, JsonValue]
    access: AccessClass = "read"
    # Unless a tool says so: nobody knows what a lost attempt did.
    idempotent: bool = False
    needs_approval: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S
    exclusive: bool = False
    meta: bool = False
    inline_arguments: bool = False
    aliases: tuple[str, ...] = ()
    shared: bool = False
    unavailable: str = ""
    on_request: bool = False
    tags: tuple[str, ...] = ()
    activity: ActivityTarget | None = None


class ToolGrant(FrozenModel):
    """What the tools of one run may touch, checked where they run, never only in the prompt.

    `root` is the folder of the run's working copy (or scratch folder); `writable` says whether
    write tools may change it; `allowed` are the exact tool names on offer. `session` and `project`
    are the ids of what the run belongs to, empty when it stands alone. `servers` are the MCP
    servers it may use, with the tools they had when it opened; `generated` the tools that were made
    for it, each with the hash of what was approved. A run that `orchestrates` may start and steer
    loops; no stage, worker or run below another does.
    """

    root: str
    writable: bool = False
    level: AccessLevel = "readonly"
    allowed: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    session: str = ""
    project: str = ""
    servers: tuple[PinnedServer, ...] = ()
    generated: dict[str, str] = {}
    orchestrates: bool = False


class ToolInvocation(ActivityMessage):
    """Who calls what, and under which key; `timeout_s` replaces the tool's own deadline.

    `stage` names the stage of the iteration that calls, empty where there are none.
    """

    run: str
    call_id: str
    idempotency_key: str
    name: str
    arguments: dict[str, JsonValue]
    conversation: str = ""
    timeout_s: float | None = None
    iteration: int = 0
    stage: str = ""


UNKNOWN_TOOL = "unknown_tool"
"""The code of an answer by a host that does not know the tool, or knows it no longer."""


class ShownFile(FrozenModel):
    """An image or PDF as a tool shows it; the caller looks at it and stores it."""

    name: str
    data: bytes = Field(repr=False)


class ToolOutput(FrozenModel):
    """What one tool call gave: the whole text; the caller stores it and makes the excerpt.

    `held` is what runs that the caller started hold of its budget; None where it did not look.
    `handed_over` are the arguments, checked and in order, with which the loop runs an activity.
    `files` are shown beside the text, to models that take them.
    """

    outcome: ToolOutcome
    text: str
    code: str = ""
    truncated: bool = False
    held: dict[str, Reservation] | None = None
    handed_over: tuple[JsonValue, ...] | None = None
    files: tuple[ShownFile, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldBy:
    """What a tool gives that has looked at the runs which its caller started."""

    value: object
    held: dict[str, Reservation]


@dataclass(frozen=True, slots=True)
class Showing:
    """What a tool gives that shows files beside its text."""

    text: str
    files: tuple[ShownFile, ...]


class Rehearsal(FrozenModel):
    """What a call would meet, found out without doing anything.

    `refused` is what the model is told instead of asking a person: nobody approves what cannot run.
    `shows` is what the call would do, such as a diff; empty where the arguments say it all. It
    holds the arguments that it `tells` in full.
    """

    refused: ToolOutput | None = None
    shows: str = ""
    tells: tuple[str, ...] = ()


class CheckCallReport(ActivityMessage):
    """What a call that a person is to approve would meet and do.

    `refused` is told to the model instead of asking anybody, its text by `ref`. Else `shown` is the
    call as a person reads it; where `left_out` characters had no room, `ref` is all of it.
    """

    refused: ToolOutcome | None = None
    ref: BlobRef | None = None
    shown: str = ""
    left_out: int = 0


def excerpt(text: str, *, reference: str, reads: bool = True) -> str:
    """The first and last part of a long text, saying what was left out.

    With `reads` the model has `artifact.read`, and is told how to read on.
    """
    if len(text) <= EXCERPT_CHARACTERS:
        return text
    head, tail = text[: EXCERPT_CHARACTERS * 3 // 4], text[-(EXCERPT_CHARACTERS // 4) :]
    left_out = len(text) - len(head) - len(tail)
    call = f'{READ_ON} {{"ref": "{reference}", "offset": {len(head)}}}'
    where = f"; read on with {call}" if reads else ""
    return f"{head}\n[… {left_out} of {len(text)} characters left out{where} …]\n{tail}"


def in_brief(text: str) -> str:
    """The first line of what a tool gave that says something, and how many more there are."""
    lines = [kept for line in text.splitlines() if (kept := " ".join(line.split()))]
    if not lines:
        return ""
    more = f" (and {len(lines) - 1} more {'line' if len(lines) == 2 else 'lines'})"
    return clipped(lines[0], BRIEF_CHARACTERS) + (more if len(lines) > 1 else "")


def arguments_hash(name: str, arguments: dict[str, JsonValue]) -> str:
    """The SHA-256 of a tool call as it would run: name and canonical arguments."""
    # Stored with calls and approvals: in another form, every call under way would be refused.
    canonical = json.dumps([name, arguments], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
