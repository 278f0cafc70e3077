"""Sessions, projects, artifacts, todos and sprints, as they are stored and shown.

A run belongs to one session (a sitting of a person or program, `headless` when nobody sits there)
and to one project (a goal that several runs may work on). What it makes has a scope, which says who
else may see and change it.
"""

from datetime import datetime
from typing import Literal

from perdure.domain.foundation.base import FrozenModel

SessionState = Literal["open", "closed"]
TodoStatus = Literal["pending", "in_progress", "done", "cancelled"]
ScopeKind = Literal["run", "session", "project"]

HEADLESS = "headless"
LOOP_OUTPUT = "loop_output"
NOTE = "note"
LEARNING = "learning"


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
