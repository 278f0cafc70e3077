"""Sessions, projects, artifacts, todos and sprints: their names, who sees them, what is stored.

A run belongs to one session (a sitting of a person or program, `headless` when nobody sits there)
and to one project (a goal that several runs may work on). What it makes has a scope, which says who
else may see and change it.

Ids are made of a key that stays the same when a step is tried again, so that a repeat finds what
the first try wrote instead of writing it twice.
"""

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.foundation.names import plain_letters

SessionState = Literal["open", "closed"]
TodoStatus = Literal["pending", "in_progress", "done", "cancelled"]
ScopeKind = Literal["run", "session", "project"]

HEADLESS = "headless"
LOOP_OUTPUT = "loop_output"
NOTE = "note"
LEARNING = "learning"
ROLLING_SUMMARY = "rolling_summary"


class Session(FrozenModel):
    """A sitting that runs are started from; a closed one takes no further runs."""

    id: str
    title: str
    state: SessionState = "open"
    created_at: datetime
    closed_at: datetime | None = None


class Project(FrozenModel):
    """A goal that runs work on; `slug` is what people call it by."""

    id: str
    slug: str
    goal: str
    created_at: datetime


class Membership(FrozenModel):
    """Who may see and change a thing: the run, session or project with the id `owner`."""

    scope: ScopeKind
    owner: str


class Artifact(FrozenModel):
    """A text or file that a run made; `ref` is the address of its content in the blob store."""

    id: str
    belongs: Membership
    run: str
    iteration: int = 0
    stage: str = ""
    kind: str = NOTE
    name: str
    media_type: str = "text/plain"
    ref: str
    bytes: int
    created_at: datetime


class Todo(FrozenModel):
    """One thing to do; `by` says which run or stage wrote it down, `order` where it stands."""

    id: str
    belongs: Membership
    run: str
    text: str
    status: TodoStatus = "pending"
    order: int = 0
    by: str = ""
    created_at: datetime
    changed_at: datetime


class TodoCounts(FrozenModel):
    """How many todos there are of each status."""

    pending: int = 0
    in_progress: int = 0
    done: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        """All of them, whatever their status."""
        return self.pending + self.in_progress + self.done + self.cancelled


class Sprint(FrozenModel):
    """One iteration of a run as its project's sprint: the goal, and how it goes."""

    run: str
    iteration: int
    project: str = ""
    goal: str
    note: str = ""
    changed_at: datetime


SLUG_WORDS = 6
SLUG_CHARACTERS = 48
ID_CHARACTERS = 16  # 64 bits: what two runs make never meets by chance


def stable_id(kind: str, *key: str) -> str:
    """An id such as `todo-1f3a09bc5d7e2b64`, always the same for the same key."""
    # Joined by a sign that no part holds, so that two keys never run together into one.
    digest = hashlib.sha256("\0".join((kind, *key)).encode("utf-8", "replace")).hexdigest()
    return f"{kind}-{digest[:ID_CHARACTERS]}"


def slug_of(goal: str) -> str:
    """The first words of a goal as a name: lower-case words joined by dashes."""
    words = re.findall(r"[a-z0-9]+", plain_letters(goal))[:SLUG_WORDS]
    return "-".join(words)[:SLUG_CHARACTERS].strip("-") or "project"


def numbered(slug: str, number: int) -> str:
    """The slug itself, then `slug-2`, `slug-3` and so on where earlier ones are taken."""
    return slug if number < 2 else f"{slug}-{number}"


@dataclass(frozen=True, slots=True)
class Reach:
    """A run with the session and project it belongs to; empty ids belong to nothing."""

    run: str
    session: str = ""
    project: str = ""

    @property
    def belongings(self) -> tuple[Membership, ...]:
        """Every scope whose things are within reach."""
        # From the narrowest to the widest: what names no scope lands in the last.
        owners: tuple[tuple[ScopeKind, str], ...] = (
            ("run", self.run),
            ("session", self.session),
            ("project", self.project),
        )
        return tuple(Membership(scope=scope, owner=owner) for scope, owner in owners if owner)

    def belonging(self, scope: ScopeKind | None = None) -> Membership:
        """Where something new lands: in the scope asked for, else in the widest there is.

        Raises:
            ToolFailure: the run has no session or project of that kind.
        """
        within = {belonging.scope: belonging for belonging in self.belongings}
        if scope is None:
            return self.belongings[-1]
        if scope not in within:
            raise ToolFailure(
                f"scope: this run belongs to no {scope}. Use one of: {', '.join(within)}.",
                reason="refused",
            )
        return within[scope]

    def holds(self, belonging: Membership) -> bool:
        """Whether a thing of that scope is within reach."""
        return belonging in self.belongings
