"""What every interface is handed: the services of an installation, as protocols and values.

Interfaces import no adapter. The composition root builds these values; tests build them in memory.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, Protocol

from perdure.domain.budget.journal import Journal
from perdure.domain.budget.ledger import Ledger
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.names import LoopKind
from perdure.domain.generated_tools.record import MadeToolStore
from perdure.domain.installation.access import AccessStore
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.memory.patterns import MineReport
from perdure.domain.memory.store import MemoryStore
from perdure.domain.ports import BlobStore, Endpoints, LiveTexts, RecordStore, TranscriptStore
from perdure.domain.projects.ports import ArtifactStore, ProjectStore, SessionStore, TodoStore
from perdure.domain.roles.definition_library import DefinitionStore
from perdure.domain.run.audit import AuditStore
from perdure.domain.run.cost_report import CostReport
from perdure.domain.run.events import Event
from perdure.domain.run.messages import AnyMessage, Receipt
from perdure.domain.run.notices import NoticeStore
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import RunStatus
from perdure.domain.specs import Spec
from perdure.domain.tools.workspaces import Workspaces
from perdure.domain.turns.records import IterationRecord
from perdure.gateway.types import (
    BulkReport,
    FailingRuns,
    MiningSchedule,
    OpenGates,
    QueueState,
    Repaired,
    Retained,
    RunFilter,
    RunPage,
)

if TYPE_CHECKING:  # read by few: commands start without it
    from perdure.domain.experiments.plan import Entry, Plan
    from perdure.domain.experiments.status import ExperimentStatus
    from perdure.domain.experiments.store import StoredExperiment
    from perdure.domain.experiments.trials import Trial
    from perdure.domain.retention.erasure import Erased
    from perdure.domain.run.figures import ServerLoad, StoreFigures
    from perdure.domain.schedules.plan import SchedulePlan
    from perdure.domain.schedules.status import ScheduleStatus, Triggered
    from perdure.interfaces.deployments import DeploymentGateway
    from perdure.interfaces.metrics_outlet import LookAtFigures, MetricsOutlet


class Collected(FrozenModel):
    """What a garbage collection dropped, or would drop.

    `calls` are those that the journal knows as begun and no step is waiting for, as in a store that
    was restored: they are booked as lost, at what they were expected to use. `runs` are those that
    the rules of retention keep no longer.
    """

    blobs: int
    bytes: int
    kept: int
    dry_run: bool
    calls: int = 0
    runs: int = 0


class MovedContent(FrozenModel):
    """How many blobs were moved to the object store, and their stored bytes."""

    blobs: int
    bytes: int


class Rewrapped(FrozenModel):
    """How many values of rows, and how many blobs, were encrypted again."""

    rows: int
    blobs: int


OnProgress = Callable[[str], None]


class ModelFacts(Protocol):
    """What is known of models before they are called."""

    async def card(self, model: str) -> ModelProfile:
        """Facts about a model; raises `ModelError` or `InvalidInput` for an unknown one."""
        ...


class RunGateway(Protocol):
    """The runs, as interfaces reach them; `Gateway` is the real one."""

    async def start(
        self,
        spec: Spec,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        by: str = "",
    ) -> str:
        """Start a run and return its id."""
        ...

    async def check(self, spec: Spec) -> Spec:
        """The specification as it would run here; asks no server; raises `InvalidInput`."""
        ...

    async def default_model(self) -> str | None:
        """What a run without a model uses where the workers are; None when none has said."""
        ...

    async def fork_spec(self, run: str, iteration: int) -> Spec:
        """What a fork from an iteration is told, before anything is changed."""
        ...

    async def fork(
        self,
        run: str,
        iteration: int,
        spec: Spec,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        by: str = "",
    ) -> str:
        """Start a new run that goes on from an iteration of another, and return its id."""
        ...

    async def readiness(self, spec: Spec) -> Sequence[QueueState]:
        """Who answers on the queues that a run of this specification needs."""
        ...

    async def status(self, run: str) -> RunStatus:
        """Read the status of a run."""
        ...

    async def result(self, run: str, *, wait: bool = True) -> RunResult:
        """The end; raises `NotAllowed` when it has not come and nobody waits."""
        ...

    async def records(self, run: str) -> Sequence[IterationRecord]:
        """All iterations."""
        ...

    async def costs(self, run: str | None = None) -> CostReport:
        """Spend by phase, model and day, of one run or of all."""
        ...

    def events(
        self, run: str, *, since: int = 0, on_trouble: Callable[[str], None] | None = None
    ) -> AsyncIterator[Event]:
        """Follow the run, and tell what keeps it from moving; ends with the event `ended`."""
        ...

    async def verb(self, run: str, message: AnyMessage) -> Receipt:
        """Steer one run."""
        ...

    async def failing(self, *, limit: int) -> FailingRuns:
        """Open runs whose code keeps failing, each with why."""
        ...

    async def load(self) -> "ServerLoad":
        """What waits at the server: runs for people, tasks for workers."""
        ...

    async def repair(self, run: str) -> Repaired:
        """Take a run whose code keeps failing back to where it was sound."""
        ...

    async def verb_all(
        self, message: AnyMessage, *, kind: LoopKind | None = None, root: str | None = None
    ) -> BulkReport:
        """Steer all open runs of a kind or a root, or all."""
        ...

    async def gates(self) -> OpenGates:
        """All open questions."""
        ...

    async def list(self, wanted: RunFilter | None = None) -> RunPage:
        """One page of runs."""
        ...

    async def count(self, wanted: RunFilter) -> int:
        """How many runs a filter finds on the server."""
        ...

    async def delete(self, run: str) -> None:
        """Drop an ended run; raises `NotAllowed` for an open one."""
        ...

    async def resolve(self, name: str) -> str:
        """The full id behind a unique beginning or `@last`."""
        ...

    async def mining_schedule(self) -> MiningSchedule | None:
        """When patterns are looked for, or None."""
        ...

    async def schedule_mining(self, every: timedelta) -> MiningSchedule:
        """Look for patterns at this interval."""
        ...

    async def unschedule_mining(self) -> bool:
        """Look no more; False when nothing was scheduled."""
        ...

    async def mine(self) -> MineReport:
        """Look for patterns once, now."""
        ...

    async def collection_schedule(self) -> MiningSchedule | None:
        """When garbage is collected, or None."""
        ...

    async def schedule_collection(self, every: timedelta) -> MiningSchedule:
        """Collect garbage at this interval."""
        ...

    async def unschedule_collection(self) -> bool:
        """Collect on no schedule; False when nothing was scheduled."""
        ...

    def fresh_id(self, kind: str, goal: str) -> str:
        """An id that no run has."""
        ...

    async def history_export(self, run: str) -> bytes:
        """The history as JSON."""
        ...

    def retained(self) -> AsyncIterator[Retained]:
        """What the server keeps of each execution, for cleaning up the stores."""
        ...

    def web_url(self, run: str) -> str | None:
        """Where the Web UI shows a run."""
        ...


class ExperimentGateway(Protocol):
    """The experiments, as interfaces reach them; `gateway.experiments.Experiments` says more."""

    async def start(self, plan: "Plan", entries: "Sequence[Entry]", *, id: str) -> str:
        """Start an experiment and return its id."""
        ...

    async def stored(self, id: str) -> "StoredExperiment":
        """The experiment as its row says."""
        ...

    async def resolve(self, name: str) -> str:
        """The full id behind a unique beginning or `@last`."""
        ...

    async def list(self, *, limit: int = 100) -> "Sequence[ExperimentStatus]":
        """The newest experiments first."""
        ...

    async def status(self, id: str) -> "ExperimentStatus":
        """How an experiment stands."""
        ...

    async def trials(self, id: str) -> "Sequence[Trial]":
        """What became of its trials so far."""
        ...

    async def entries(self, id: str) -> "Sequence[Entry]":
        """Its inputs in order."""
        ...

    async def pause(self, id: str) -> None:
        """Start no further trial."""
        ...

    async def stop(self, id: str, *, now: bool = False) -> None:
        """End it."""
        ...

    async def resume(self, id: str, *, cost_usd: Decimal | None = None) -> None:
        """Go on after a pause, a stop or a spent budget."""
        ...

    async def extend(self, id: str, entries: "Sequence[Entry]") -> "ExperimentStatus":
        """Run further inputs too."""
        ...

    async def delete(self, id: str) -> None:
        """Forget an experiment that has ended."""
        ...


class ScheduleGateway(Protocol):
    """The schedules, as interfaces reach them; `gateway.schedules.Schedules` says more."""

    async def create(
        self, plan: "SchedulePlan", *, paused: bool = False, replace: bool = False
    ) -> "ScheduleStatus":
        """Start a task by the clock from now on."""
        ...

    async def list(self) -> "Sequence[ScheduleStatus]":
        """All schedules by name."""
        ...

    async def status(self, name: str) -> "ScheduleStatus":
        """How a schedule stands."""
        ...

    async def pause(self, name: str, *, note: str = "") -> "ScheduleStatus":
        """Start nothing until it is taken up again."""
        ...

    async def resume(self, name: str, *, note: str = "") -> "ScheduleStatus":
        """Start its task by the clock again."""
        ...

    async def trigger(self, name: str) -> "Triggered":
        """Start its task once, now."""
        ...

    async def delete(self, name: str) -> None:
        """End a schedule; its runs stay."""
        ...


class ErasureService(Protocol):
    """Erases runs; `operations.erase.Eraser` says more."""

    async def find(self, *, subject: str | None = None, label: str | None = None) -> "list[str]":
        """Root runs with this label, or that mention a text."""
        ...

    async def erase(self, root: str, *, now: datetime, dry_run: bool = False) -> "Erased":
        """Erase a run with those below it and what was learned from it."""
        ...


class Start(Protocol):
    """Starts missing embedded services and returns the connected services.

    Beside a named server nothing is started, unless it is asked for `with_worker`.
    """

    async def __call__(
        self, on_progress: OnProgress, *, with_worker: bool = False
    ) -> "Services": ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """One connected installation."""

    gateway: RunGateway
    started: Start
    blobs: BlobStore
    records: RecordStore
    live: LiveTexts
    journal: Journal
    ledger: Callable[[], Ledger]
    figures: "Callable[[], StoreFigures]"
    metrics: "Callable[[LookAtFigures], MetricsOutlet]"
    experiments: Callable[[], ExperimentGateway]
    deployments: "Callable[[], DeploymentGateway]"
    schedules: Callable[[], ScheduleGateway]
    erasure: Callable[[], ErasureService]
    transcripts: TranscriptStore
    workspaces: Callable[[], Workspaces]
    memory: MemoryStore
    made_tools: MadeToolStore
    sessions: SessionStore
    projects: ProjectStore
    artifacts: ArtifactStore
    todos: TodoStore
    access: AccessStore
    audit: AuditStore
    notices: NoticeStore
    definitions: Callable[[], DefinitionStore]
    models: Callable[[], ModelFacts]
    endpoints: Endpoints


class PartView(Protocol):
    """One embedded service, as its supervisor sees it."""

    @property
    def name(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def port(self) -> int | None: ...
    @property
    def restarts(self) -> int: ...
    @property
    def detail(self) -> str: ...


class RuntimeView(Protocol):
    """The embedded services together."""

    @property
    def status(self) -> str: ...
    @property
    def endpoints(self) -> Endpoints: ...
    @property
    def parts(self) -> Sequence[PartView]: ...


class LogEntry(Protocol):
    """One line of a service's log."""

    @property
    def part(self) -> str: ...
    @property
    def text(self) -> str: ...


class Check(FrozenModel):
    """One line of `doctor`: what was looked at, what was found, what to do."""

    name: str
    state: Literal["ok", "warning", "failed"]
    found: str
    cure: str = ""


class Replayed(FrozenModel):
    """One history, replayed against this code; `problem` is None when it still holds."""

    source: str
    events: int
    problem: str | None = None


class Killed(FrozenModel):
    """A service that was killed on purpose."""

    name: str
    pid: int
