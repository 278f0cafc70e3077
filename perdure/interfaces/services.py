"""What every door is handed: the services of an installation, and what a command may start.

Doors import no adapter. The composition root builds these values; tests build them in memory.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, Protocol, TextIO

from pydantic import BaseModel

from perdure.domain.admission import RubricProblems, no_problems
from perdure.domain.audit import AuditStore
from perdure.domain.base import Frozen
from perdure.domain.costs import CostReport
from perdure.domain.events import Event
from perdure.domain.memory.mining import MineReport
from perdure.domain.messages import AnyMessage, Receipt
from perdure.domain.models import ModelCard
from perdure.domain.names import LoopKind
from perdure.domain.ports import (
    AccessStore,
    ArtifactStore,
    BlobStore,
    DefinitionStore,
    Endpoints,
    Journal,
    MadeToolStore,
    MemoryStore,
    ProjectStore,
    RecordStore,
    SessionStore,
    TodoStore,
    TranscriptStore,
    Workspaces,
)
from perdure.domain.result import IterationRecord, RunResult
from perdure.domain.status import RunStatus
from perdure.interfaces.gateway.facts import (
    BulkReport,
    FailingRuns,
    MiningSchedule,
    OpenGates,
    QueueState,
    Repaired,
    Retained,
    RunFilter,
    RunPage,
    Spec,
)
from perdure.interfaces.submission.facts import ModelNotes, no_notes

OnProgress = Callable[[str], None]


class ModelFacts(Protocol):
    """What is known of models before they are called."""

    async def card(self, model: str) -> ModelCard:
        """Facts about a model; raises `ModelError` or `InvalidInput` for an unknown one."""
        ...


class RunGateway(Protocol):
    """The runs, as doors reach them; `Gateway` is the real one."""

    async def start(
        self, spec: Spec, *, run_id: str | None = None, idempotency_key: str | None = None
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
    ) -> str:
        """Start a new run that goes on from an iteration of another, and return its id."""
        ...

    async def readiness(self, spec: Spec) -> Sequence[QueueState]:
        """Who answers on the queues that a run of this specification needs."""
        ...

    async def status(self, run: str) -> RunStatus:
        """One look."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """One connected installation."""

    gateway: RunGateway
    blobs: BlobStore
    records: RecordStore
    journal: Journal
    transcripts: TranscriptStore
    workspaces: Workspaces
    memory: MemoryStore
    made_tools: MadeToolStore
    sessions: SessionStore
    projects: ProjectStore
    artifacts: ArtifactStore
    todos: TodoStore
    access: AccessStore
    audit: AuditStore
    definitions: DefinitionStore
    models: ModelFacts
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


class Check(Frozen):
    """One line of `doctor`: what was looked at, what was found, what to do."""

    name: str
    state: Literal["ok", "warning", "failed"]
    found: str
    cure: str = ""


class Replayed(Frozen):
    """One history, replayed against this code; `problem` is None when it still holds."""

    source: str
    events: int
    problem: str | None = None


class Collected(Frozen):
    """What a garbage collection dropped, or would drop."""

    blobs: int
    bytes: int
    kept: int
    dry_run: bool


class Killed(Frozen):
    """A service that was killed on purpose."""

    name: str
    pid: int


class Connect(Protocol):
    """Opens the services; embedded ones are started first when `start` says so.

    Where a server is named nothing is started, unless `with_worker` asks for a worker of ours.
    """

    def __call__(
        self, *, start: bool, on_progress: OnProgress, with_worker: bool = False
    ) -> AbstractAsyncContextManager[Services]: ...


class ReadLogs(Protocol):
    """Reads the logs of one service, or of all."""

    def __call__(
        self, part: str | None, *, lines: int, follow: bool
    ) -> AsyncIterator[LogEntry]: ...


class RunCodec(Protocol):
    """Serves as codec server on a port, for pages of these origins; says where once it answers."""

    def __call__(
        self, *, port: int | None, origins: Sequence[str], on_ready: OnProgress
    ) -> Awaitable[None]: ...


class RunApi(Protocol):
    """Serves the REST API on an address; says where once it answers."""

    def __call__(
        self, *, host: str | None, port: int | None, on_ready: OnProgress
    ) -> Awaitable[None]: ...


class InHome(Protocol):
    """The same context over another home folder (or, for None, over the current one)."""

    def __call__(self, home: Path) -> "AppContext": ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AppContext:
    """What the command line gets.

    Args:
        connect: opens `Services` for one command.
        up: the services in the foreground; returns when they were asked to end.
        ensure: starts what is missing with the settings of this shell and no others, and returns
            where it answers.
        down: stops the services; False when none ran.
        state: the services as they run now, or None.
        logs: log lines, the newest last.
        run_worker: polls until asked to end.
        run_codec: answers the Web UI with what is sealed, until asked to end.
        run_api: answers programs over HTTP, until asked to end.
        setup_model: installs the embedded model; returns a sentence on what was done.
        replay: replays histories (JSON bytes by name) against this code.
        doctor: looks at the installation, one check after the other.
        collect: drops blobs that nothing needs; with True it only counts them.
        kill_worker: kills the embedded worker without warning.
        lay_out: copies the example of a ready-made task from one folder into another.
        loops: the loop definitions, which need no server.
        in_home: a context for another home folder.
        home: the home folder; `named_home` says that the user chose it.
        folder: the folder that commands work in.
        user: who steers, for audit trails.
        user_defaults: the user's own `perdure.yaml`.
        default_model: what runs use that name no model.
        now: the clock.
        version: of the product.
        rubric_problems: finds patterns and schemas of a rubric that cannot be used.
        file_formats: models of files that adapters read, for their schemas.
        model_notes: says which models end soon.
        stdout: where output goes; progress and errors go to `stderr`.
        stdin: where a person answers questions in place; None: nobody does.
        rate_per_minute: requests of one token a minute, over HTTP.
        token_days: after how many days a new token expires; None: never.
    """

    connect: Connect
    up: Callable[[Callable[[RuntimeView], None]], Awaitable[None]]
    ensure: Callable[[OnProgress], Awaitable[Endpoints]]
    down: Callable[[], Awaitable[bool]]
    state: Callable[[], Awaitable[RuntimeView | None]]
    logs: ReadLogs
    run_worker: Callable[[], Awaitable[None]]
    run_codec: RunCodec
    run_api: RunApi
    setup_model: Callable[[OnProgress], Awaitable[str]]
    replay: Callable[[dict[str, bytes]], AsyncIterator[Replayed]]
    doctor: Callable[[], AsyncIterator[Check]]
    collect: Callable[[bool], Awaitable[Collected]]
    kill_worker: Callable[[], Awaitable[Killed]]
    lay_out: Callable[[Path, Path], Awaitable[None]]
    loops: DefinitionStore
    in_home: InHome
    home: Path
    named_home: bool
    folder: Path
    user: str
    user_defaults: Path
    default_model: str
    now: Callable[[], datetime]
    version: str
    stdout: TextIO
    stderr: TextIO
    stdin: TextIO | None = None
    rate_per_minute: int = 600
    token_days: int | None = 90
    rubric_problems: RubricProblems = no_problems
    file_formats: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    model_notes: ModelNotes = no_notes
