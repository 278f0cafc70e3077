"""What every interface is given: the services of an installation, as protocols and values.

Interfaces import no adapter. The composition root builds these values; tests build them in memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from perdure.domain.budget.journal import Journal
from perdure.domain.budget.spend_report import Ledger
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.generated_tools.record import MadeToolStore
from perdure.domain.installation.access import AccessStore
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.memory.store import MemoryStore
from perdure.domain.ports import BlobStore, Endpoints, LiveTexts, RecordStore, TranscriptStore
from perdure.domain.projects.ports import ArtifactStore, ProjectStore, SessionStore, TodoStore
from perdure.domain.retention.messages import LeftRun
from perdure.domain.roles.definition_library import DefinitionStore
from perdure.domain.run.audit import AuditStore
from perdure.domain.tools.workspaces import Workspaces
from perdure.interfaces.gateways import RunGateway, ScheduleGateway

if TYPE_CHECKING:  # imported for types only: few commands need them, and the others start faster
    from perdure.domain.retention.erasure import Erased, Pending
    from perdure.domain.run.figures import StoreFigures
    from perdure.domain.run.notices import NoticeStore
    from perdure.gateway.experiments import Experiments as ExperimentGateway
    from perdure.interfaces.deployments import DeploymentGateway
    from perdure.interfaces.metrics_outlet import LookAtFigures, MetricsOutlet


class Collected(FrozenModel):
    """What a garbage collection deleted, or would delete.

    `calls` are calls that the journal has as begun although no step waits for them, as after a
    restore of the store; they are booked as lost, at their estimated cost. `ended` are runs that
    were ended from outside, such as terminated ones, and are noted as ended now. `runs` are runs
    whose retention time is over. `left` of them could not be deleted, for instance because a reset
    made them active again; `left_runs` names the first of these.
    """

    blobs: int
    bytes: int
    kept: int
    dry_run: bool
    calls: int = 0
    ended: int = 0
    runs: int = 0
    left: int = 0
    left_runs: tuple[LeftRun, ...] = ()


class MovedContent(FrozenModel):
    """How many blobs were moved to the object store, and their stored bytes."""

    blobs: int
    bytes: int


class Rewrapped(FrozenModel):
    """How many values of rows, and how many blobs, were encrypted again.

    Queries do not find `unreadable` rows by what the current key makes of their words.
    """

    rows: int
    blobs: int
    unreadable: tuple[str, ...] = ()


OnProgress = Callable[[str], None]


class ModelProfiles(Protocol):
    """Facts about models, known without calling them."""

    async def card(self, model: str) -> ModelProfile:
        """Facts about a model; raises `ModelError` or `InvalidInput` for an unknown one."""
        ...


class ErasureService(Protocol):
    """Erases runs; see `operations.erase.Eraser`."""

    async def find(
        self, *, subject: str | None = None, label: str | None = None, tell: OnProgress = ...
    ) -> "list[str]": ...
    async def ask(self, roots: Sequence[str], *, now: datetime) -> None: ...
    async def pending(self) -> "Pending": ...
    async def drop(self, root: str, *, now: datetime, dry_run: bool = False) -> "Erased": ...
    async def sweep(
        self, roots: Sequence[str], *, now: datetime, tell: OnProgress = ...
    ) -> "Erased": ...
    async def erase(self, root: str, *, now: datetime, dry_run: bool = False) -> "Erased": ...


class Start(Protocol):
    """Starts missing embedded services and returns the connected services.

    With a named server nothing is started, unless `with_worker` asks for it.
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
    live: Callable[[], LiveTexts]
    journal: Journal
    ledger: Callable[[], Ledger]
    figures: "Callable[[], StoreFigures]"
    metrics: "Callable[[LookAtFigures], MetricsOutlet]"
    experiments: "Callable[[], ExperimentGateway]"
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
    notices: "Callable[[], NoticeStore]"
    definitions: Callable[[], DefinitionStore]
    models: Callable[[], ModelProfiles]
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
