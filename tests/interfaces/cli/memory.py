"""An installation in memory: what commands are handed, and what they did to it."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO, StringIO
from pathlib import Path
from typing import TextIO

from kept_schedules import MemorySchedules

from perdure.adapters.checks import check_problems
from perdure.adapters.definitions.example_files import lay_out
from perdure.adapters.definitions.store import LoopFiles
from perdure.adapters.settings.config_files import KNOWN, ConfigFiles
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.composition.maintenance import erasing
from perdure.domain.budget.journal import AttemptRow
from perdure.domain.experiments.plan import Entry, Plan
from perdure.domain.experiments.status import ExperimentStatus
from perdure.domain.experiments.store import Place, StoredExperiment
from perdure.domain.experiments.trials import Step, Trial, Try
from perdure.domain.foundation.errors import NotFound, PerdureError
from perdure.domain.llm.requests import ModelProfile, Price
from perdure.domain.ports import Endpoints, LiveTexts
from perdure.interfaces.app_context import AppContext
from perdure.interfaces.cli.app import main
from perdure.interfaces.services import (
    Check,
    Collected,
    Killed,
    MovedContent,
    Replayed,
    RuntimeView,
    Services,
)
from tests.interfaces.cli.gateway import MemoryGateway
from tests.interfaces.cli.samples import RUN
from tests.interfaces.cli.stores import MemoryBlobs, MemoryTranscripts, MemoryWorkspaces

FREE = Price(input_per_million=Decimal(0), output_per_million=Decimal(0))


@dataclass
class MemoryJournal:
    """Rows that a test sets; a second list stands for later."""

    gateway: MemoryGateway
    later: list[AttemptRow] | None = None
    asked: int = 0

    async def rows(self, run: str) -> list[AttemptRow]:
        self.asked += 1
        if self.asked > 1 and self.later is not None:
            return self.later
        return self.gateway.attempts


class MemoryModels:
    """Knows the embedded model alone."""

    async def card(self, model: str) -> ModelProfile:
        if model != "local":
            raise NotFound(f"No model {model}.")
        return ModelProfile(name="local", price=FREE, tools=False, judges=False, small=True)


@dataclass(frozen=True)
class FakePart:
    name: str
    status: str = "running"
    port: int | None = 7233
    restarts: int = 0
    detail: str = ""


@dataclass(frozen=True)
class FakeRuntime:
    parts: tuple[FakePart, ...]
    endpoints: Endpoints
    status: str = "ready"


@dataclass(frozen=True)
class FakeLog:
    part: str
    text: str


ENDPOINTS = Endpoints(
    temporal_address="127.0.0.1:7233",
    namespace="default",
    home="/home/me/.perdure",
    ui_url="http://127.0.0.1:8233",
)


class Pipe(StringIO):
    """A stream that also takes bytes; they stand apart from the text, in `buffer`."""

    def __init__(self) -> None:
        super().__init__()
        self._bytes = BytesIO()

    @property
    def buffer(self) -> BytesIO:
        return self._bytes


class Terminal(StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass
class Installation:
    """Everything a command line can reach, and what became of it."""

    folder: Path
    gateway: MemoryGateway = field(default_factory=MemoryGateway)
    blobs: MemoryBlobs = field(default_factory=MemoryBlobs)
    workspaces: MemoryWorkspaces = field(default_factory=MemoryWorkspaces)
    experiments: "MemoryExperiments" = field(default_factory=lambda: MemoryExperiments())
    deployments: object = None
    schedules: MemorySchedules = field(default_factory=MemorySchedules)
    journal: MemoryJournal | None = None
    live: LiveTexts | None = None
    checks: tuple[Check, ...] = (Check(name="Python", state="ok", found="3.11"),)
    replays: tuple[Replayed, ...] = (Replayed(source=RUN, events=3),)
    connect_error: PerdureError | None = None
    calls: list[str] = field(default_factory=list)
    homes: list[Path] = field(default_factory=list)
    killed: bool = False
    remembers: bool = False
    states: list[RuntimeView | None] | None = None
    stdin: TextIO | None = None
    stdout: StringIO = field(default_factory=StringIO)
    stderr: StringIO = field(default_factory=StringIO)

    def run(self, *argv: str, terminal: bool = False) -> int:
        """One command line; output is in `out` and `err`."""
        make = Terminal if terminal else Pipe
        self.stdout, self.stderr = make(), make()
        return main(self.context(), argv)

    @property
    def out(self) -> str:
        return self.stdout.getvalue()

    @property
    def err(self) -> str:
        return self.stderr.getvalue()

    def context(self) -> AppContext:
        return AppContext(
            connect=self._connect,
            up=self._up,
            ensure=self._ensure,
            down=self._down,
            state=self._state,
            logs=self._logs,
            run_worker=self._worker,
            run_codec=self._codec,
            run_api=self._api,
            setup_model=self._setup,
            replay=self._replay,
            doctor=self._doctor,
            collect=self._collect,
            move_blobs=self._move_blobs,
            keys=None,  # pyright: ignore[reportArgumentType]
            kill_worker=self._kill,
            lay_out=lay_out,
            loops=lambda: LoopFiles(self.folder / "home"),
            in_home=self._in_home,
            with_plugins=self._with_plugins,
            config=ConfigFiles(self.folder / "home", self.folder),
            setting_names=KNOWN,
            home=self.folder / "home",
            named_home=False,
            folder=self.folder,
            user="ann",
            user_defaults=self.folder / "home" / "perdure.yaml",
            default_model="local",
            now=lambda: datetime.now(UTC),
            version="0.1.0",
            stdout=self.stdout,
            stderr=self.stderr,
            stdin=self.stdin,
            rubric_problems=check_problems,
        )

    @asynccontextmanager
    async def _connect(
        self, *, start: bool, on_progress: Callable[[str], None], with_worker: bool = False
    ) -> AsyncGenerator[Services]:
        if self.connect_error is not None:
            raise self.connect_error
        self.calls.append("connect and start" if start else "connect")
        async with AsyncExitStack() as stack:
            yield await self._services(stack)
        self.calls.append("disconnect")

    async def _services(self, stack: AsyncExitStack) -> Services:
        # Stores where a test asks for them: most commands look at none.
        stores: Stores = None  # pyright: ignore[reportAssignmentType]
        if self.remembers:
            stores = await open_stores(self.folder / "home")
            stack.push_async_callback(stores.close)
        return Services(
            gateway=self.gateway,
            started=self._started,
            blobs=self.blobs,
            records=stores and stores.records,
            live=lambda: self.live or (stores and stores.live()),
            journal=self.journal or MemoryJournal(self.gateway),  # pyright: ignore[reportArgumentType]
            ledger=stores and stores.ledger,
            figures=stores and stores.figures,
            metrics=None,  # pyright: ignore[reportArgumentType]
            experiments=lambda: self.experiments,  # pyright: ignore[reportArgumentType]
            deployments=lambda: self.deployments,  # pyright: ignore[reportArgumentType]
            schedules=lambda: self.schedules,
            erasure=lambda: erasing(stores, self.gateway),  # pyright: ignore[reportArgumentType]
            transcripts=MemoryTranscripts(),  # pyright: ignore[reportArgumentType]
            workspaces=lambda: self.workspaces,  # pyright: ignore[reportArgumentType]
            memory=stores and stores.memory,
            made_tools=stores and stores.made_tools,
            sessions=stores and stores.sessions,
            projects=stores and stores.projects,
            artifacts=stores and stores.artifacts,
            todos=stores and stores.todos,
            access=stores and stores.access,
            audit=stores and stores.audit,
            notices=stores and stores.notices,
            definitions=lambda: LoopFiles(self.folder / "home"),
            models=MemoryModels,
            endpoints=ENDPOINTS,
        )

    async def _started(
        self, on_progress: Callable[[str], None], *, with_worker: bool = False
    ) -> Services:
        self.calls.append("start")
        return await self._services(AsyncExitStack())

    def _runtime(self, restarts: int = 0) -> FakeRuntime:
        return FakeRuntime(parts=(FakePart("worker", restarts=restarts),), endpoints=ENDPOINTS)

    async def _up(self, on_change: Callable[[RuntimeView], None]) -> None:
        starting = FakeRuntime((FakePart("worker", "starting"),), ENDPOINTS, "starting")
        on_change(starting)
        on_change(self._runtime())
        on_change(self._runtime())

    async def _ensure(self, on_progress: Callable[[str], None]) -> Endpoints:
        on_progress("worker: running")
        return ENDPOINTS

    async def _down(self) -> bool:
        self.calls.append("down")
        return True

    async def _state(self) -> RuntimeView | None:
        if self.states is not None:
            return self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return self._runtime(1 if self.killed else 0)

    async def _logs(self, part: str | None, *, lines: int, follow: bool) -> AsyncGenerator[FakeLog]:
        yield FakeLog(part or "worker", f"{lines} \x1b[31m{follow}")

    async def _worker(self) -> None:
        self.calls.append("worker")

    async def _codec(
        self, *, port: int | None, origins: Sequence[str], on_ready: Callable[[str], None]
    ) -> None:
        self.calls.append(f"codec {port} {list(origins)}")
        on_ready(f"http://127.0.0.1:{port or 8236}")

    async def _api(
        self, *, host: str | None, port: int | None, on_ready: Callable[[str], None]
    ) -> None:
        self.calls.append(f"api {host} {port}")
        on_ready(f"http://{host or '127.0.0.1'}:{port or 8237}")

    async def _setup(self, on_progress: Callable[[str], None]) -> str:
        return "The embedded model is installed."

    async def _replay(self, histories: dict[str, bytes]) -> AsyncGenerator[Replayed]:
        self.calls.append(f"replay {sorted(histories)}")
        for item in self.replays:
            yield item

    async def _doctor(self) -> AsyncGenerator[Check]:
        for check in self.checks:
            yield check

    async def _collect(self, dry_run: bool) -> Collected:
        return Collected(blobs=2, bytes=1024 * 1024, kept=5, dry_run=dry_run)

    async def _move_blobs(self) -> MovedContent:
        return MovedContent(blobs=3, bytes=1024 * 1024)

    async def _kill(self) -> Killed:
        self.killed = True
        return Killed(name="worker", pid=4711)

    def _with_plugins(self, names: Sequence[str]) -> AppContext:
        self.calls.append(f"plugins: {', '.join(names)}")
        return self.context()

    def _in_home(self, home: Path) -> AppContext:
        self.homes.append(home)
        return replace(self.context(), home=home, named_home=True)


STARTED = datetime(2026, 1, 2, tzinfo=UTC)


class MemoryExperiments:
    """Experiments that have ended as soon as they are started; every trial scored 0.5."""

    def __init__(self) -> None:
        self.started: list[tuple[Plan, Sequence[Entry]]] = []

    async def try_repeat(self, id: str, *, sent: str) -> bool:
        return False

    async def start(
        self, plan: Plan, entries: Sequence[Entry], *, id: str, sent: str | None = None
    ) -> str:
        self.started.append((plan, entries))
        return id

    async def resolve(self, name: str) -> str:
        return name

    async def stored(self, id: str) -> StoredExperiment:
        plan, entries = self.started[-1]
        return StoredExperiment(
            id=id, plan=plan, inputs=len(entries), digest="d", created_at=STARTED, state="ended"
        )

    async def status(self, id: str) -> ExperimentStatus:
        stored = await self.stored(id)
        return ExperimentStatus(
            id=id,
            name=stored.plan.name,
            state="ended",
            reason="completed",
            arms=tuple(arm.name for arm in stored.plan.arms),
            inputs=stored.inputs,
            repeats=1,
            trials=stored.trials,
            ended=stored.trials,
            budget=stored.plan.budget,
            created_at=STARTED,
        )

    async def list(
        self, *, limit: int = 100, after: Place | None = None
    ) -> Sequence[ExperimentStatus]:
        """Each start as an experiment, the newest first; all of the same moment."""
        ids = [f"exp-{number:03}" for number in range(len(self.started))]
        behind = [id for id in ids if after is None or id > after.id]
        return [await self.status(id) for id in behind[:limit]]

    async def trials(self, id: str) -> Sequence[Trial]:
        stored = await self.stored(id)
        found: list[Trial] = []
        for number in range(stored.trials):
            at = stored.plan.position(number)
            one = Try(run=f"r{number}", outcome="accepted", score=0.5, steps=(Step(score=0.5),))
            found.append(Trial(number=number, arm=at.arm, entry=at.entry, tries=(one,), ended=True))
        return found

    async def entries(self, id: str) -> Sequence[Entry]:
        return self.started[-1][1]
