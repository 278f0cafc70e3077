"""The one status shape that every interface shows, and a run as the record store keeps it."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from pydantic import JsonValue

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.evaluation.outcomes import Lifecycle
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.run.child_questions import Question
from perdure.domain.run.child_runs import ChildStatus
from perdure.domain.run.control import Phase
from perdure.domain.run.events import Event
from perdure.domain.run.gates import Gate
from perdure.domain.run.hooks import HookFailure
from perdure.domain.run.result import Mark, Origin
from perdure.domain.turns.guidance import Said
from perdure.domain.turns.records import StageStatus, VerdictKind


class StoredRun(FrozenModel):
    """What the store knows of a run; `spec` and `state`, in which it ended, are addresses.

    `parent` is the run that it works for. `digest` is of what it was started with, `start_key` of
    the idempotency key: they say what the id and the key stand for, also when the server no longer
    knows the run. `workspace` is the id of its folder, empty without one or below another run, and
    None in rows of before that was kept. `namespace` is that of the Temporal server in which it
    works, None in rows of before that was kept.
    """

    id: str
    kind: str
    goal: str
    label: str | None
    lifecycle: str
    outcome: str | None
    started_at: datetime
    ended_at: datetime | None = None
    result: str | None = None
    status: str | None = None
    spec: str | None = None
    state: str | None = None
    parent: str | None = None
    digest: str | None = None
    start_key: str | None = None
    workspace: str | None = ""
    namespace: str | None = None


class RunWords(FrozenModel):
    """What the store knows that people call a run."""

    goal: str
    label: str | None = None


class CurrentStep(FrozenModel):
    """The step in flight, in words, and since when."""

    what: str
    since: datetime


class Point(FrozenModel):
    """One iteration on the trajectory; failed and unscored ones have no score."""

    iteration: int
    score: float | None
    decision: str


class Part(FrozenModel):
    """One part of an output that is refined part by part."""

    name: str
    passed: bool
    detail: str = ""


class StageNow(FrozenModel):
    """The stage of an iteration of roles that is at work: its place, from 1, and its attempt."""

    index: int
    of: int
    name: str
    role: str
    attempt: int = 1


class StageResult(FrozenModel):
    """A finished stage: its verdict where it reviewed, and a summary of what it said.

    `summary` is the reason of its verdict, else the first line of its text, else its error; it is
    cut at 300 characters. `output_ref` is the address of the whole text, `child` the run of a
    nested loop.
    """

    iteration: int
    stage: str
    role: str
    status: StageStatus
    attempt: int = 1
    verdict: VerdictKind | None = None
    summary: str = ""
    output_ref: str | None = None
    child: str | None = None


class BudgetStatus(FrozenModel):
    """The envelope as people see it."""

    limits: BudgetLimits
    tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)
    model_calls: int = 0
    tool_calls: int = 0
    active_time_s: float = 0.0
    reserved_tokens: int = 0
    reserved_cost_usd: Decimal = Decimal(0)
    fraction_remaining: float = 1.0
    warned: tuple[str, ...] = ()


class RunStatus(FrozenModel):
    """One look at a run, live or ended.

    `stop` is how somebody told it to stop, while it has not ended.
    `stages` are the newest results of finished stages, in runs of roles.
    `questions` are those of runs below, in short; `perdure gates RUN` has them in full.
    `children` are the open runs that it started, `runs_below` the newest of all that it started.
    `trouble` is what keeps an open run from moving, as the server knows it: a step that is tried
    again, or code that fails in the worker. `dispatch` is `pending`, `dispatched`, or the last
    error in handing the run's work to a worker; empty in old runs. `unseen` says which of its
    models cannot be shown which of its images and PDFs.
    """

    id: str
    kind: str
    goal: str
    label: str | None = None
    metadata: dict[str, JsonValue] = {}
    lifecycle: Lifecycle
    phase: Phase
    blocked_on: str | None = None
    stop: Literal["graceful", "now"] | None = None
    iteration: int = 0
    iteration_limit: int | None = None
    elapsed_s: float = 0.0
    step: CurrentStep | None = None
    stage: StageNow | None = None
    stages: tuple[StageResult, ...] = ()
    trajectory: tuple[Point, ...] = ()
    parts: tuple[Part, ...] = ()
    best: Mark | None = None
    budget: BudgetStatus
    gates: tuple[Gate, ...] = ()
    questions: tuple[Question, ...] = ()
    children: tuple[str, ...] = ()
    runs_below: tuple[ChildStatus, ...] = ()
    events: tuple[Event, ...] = ()
    last_event: int = 0
    plan: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    refused_count: int = 0
    said: tuple[Said, ...] = ()
    hook_failures: tuple[HookFailure, ...] = ()
    unseen: tuple[str, ...] = ()
    amendments: tuple[dict[str, JsonValue], ...] = ()
    outcome: str | None = None
    reason: str | None = None
    explanation: str | None = None
    trouble: str | None = None
    dispatch: str = ""
    forked_from: Origin | None = None
    source: Literal["run", "store"] = "run"
    links: dict[str, str] = {}
    started_at: datetime | None = None
