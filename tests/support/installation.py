"""A whole installation for tests: real dev server, real stores, real workers, scripted models."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import cast

import yaml
from temporalio.client import Client, WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.about import VERSION
from perdure.adapters.checks import check_problems
from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.temporal.client import connect
from perdure.composition.maintenance import why_not_replayed
from perdure.composition.parts import Parts, open_parts
from perdure.composition.resolve_spec import Plugins, Resolver
from perdure.domain.run.result import RunResult
from perdure.domain.run.spec import Timing
from perdure.domain.run.status import RunStatus
from perdure.domain.specs import RUN_SPEC
from perdure.domain.turns.records import IterationRecord
from perdure.gateway.gateway import Gateway
from perdure.gateway.project_assignment import Settling
from perdure.gateway.types import InstallationInfo, Waits
from perdure.interfaces.audit_trail import AuditTrail
from perdure.local_services.register_search_attributes import register_search_attributes
from perdure.local_services.service_commands import temporal_binary
from perdure.worker import run_worker

FAST_SERVER = (
    # Each partition of a queue is polled; tests make thousands of queues with little on each.
    "--dynamic-config-value", "matching.numTaskqueueReadPartitions=1",
    "--dynamic-config-value", "matching.numTaskqueueWritePartitions=1",
    "--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000",
    "--dynamic-config-value", "history.timerProcessorMaxPollRPS=2000",
    "--dynamic-config-value", 'history.timerProcessorMaxTimeShift="10ms"',
    "--dynamic-config-value", 'history.workflowIdReuseMinimalInterval="0s"',
    # An execution is deleted once the queues have noted that its close is done: every 30 s.
    "--dynamic-config-value", 'history.transferProcessorUpdateAckInterval="1s"',
    "--dynamic-config-value", 'history.visibilityProcessorUpdateAckInterval="1s"',
    "--dynamic-config-value", "frontend.WorkflowPauseEnabled=true",
)  # fmt: skip
# A worker on a busy machine takes its time; who waits for an answer that comes loses nothing.
PATIENT = Waits(ready=15.0, query=10.0, update=20.0)
# For tests that never have a worker: what they wait for does not come.
IN_VAIN = Waits(ready=2.0, query=2.0, update=2.0)


@dataclass
class Installation:
    """One home with its stores, gateway and workers against a dev server."""

    home: Path
    address: str
    settings: Settings
    parts: Parts
    gateway: Gateway
    client: Client
    environment: dict[str, str] = field(default_factory=dict)

    async def script(self, content: str | Mapping[str, object]) -> str:
        """Store a script of the scripted model and return its model name."""
        text = content if isinstance(content, str) else yaml.safe_dump(dict(content))
        return f"scripted:{await self.parts.stores.blobs.put(text.encode())}"

    async def start(
        self,
        spec: Mapping[str, object],
        script: str | Mapping[str, object] | None = None,
        *,
        run_id: str | None = None,
        key: str | None = None,
    ) -> str:
        """Start a run; with a `script`, the scripted model plays every role."""
        given = dict(spec)
        if script is not None:
            models = dict(given.get("models", {}))  # type: ignore[call-overload]
            given["models"] = {"executor": await self.script(script), **models}
        wanted = RUN_SPEC.validate_python(given)
        return await self.gateway.start(wanted, run_id=run_id, idempotency_key=key)

    async def run(
        self, spec: Mapping[str, object], script: str | Mapping[str, object] | None = None
    ) -> RunResult:
        """Start a run and wait for its end."""
        return await self.gateway.result(await self.start(spec, script))

    async def replies_taken(self, run: str) -> int:
        """How many replies of its scripts were begun; a call that is made again keeps its reply.

        The journal knows of a call a moment before its reply is taken.
        """
        return sum((await self.parts.stores.records.script_uses(run, "")).values())

    async def status(self, run: str) -> RunStatus:
        """One look."""
        return await self.gateway.status(run)

    async def records(self, run: str) -> list[IterationRecord]:
        """All iteration records from the store."""
        return await self.gateway.records(run)

    def handle(self, run: str) -> WorkflowHandle[object, object]:
        """The workflow's handle, for what no door offers."""
        return self.client.get_workflow_handle(run)

    async def history(self, run: str) -> list[dict[str, object]]:
        """The events of the newest execution, as JSON."""
        return json.loads(await self.gateway.history_export(run))["events"]

    @asynccontextmanager
    async def worker(self, **settings: object) -> AsyncGenerator[None]:
        """A worker inside this process."""
        stop = asyncio.Event()
        merged = Settings.load(**{**self.settings.model_dump(exclude_unset=True), **settings})
        ready = self.home / f"ready-{id(stop)}"
        merged = merged.model_copy(update={"ready_file": ready})
        merged._temporal = self.settings._temporal
        task = asyncio.create_task(run_worker(merged, stop))
        try:
            await eventually(lambda: ready.exists() or task.done())
            if task.done():
                task.result()
            yield
        finally:
            stop.set()
            await task

    @asynccontextmanager
    async def worker_process(self, **environment: str) -> AsyncGenerator["WorkerProcess"]:
        """A worker in a process of its own, which a test may kill."""
        process = WorkerProcess(self, environment)
        try:
            await process.start()
            yield process
        finally:
            await process.end()


class WorkerProcess:
    """A worker process; `kill` is SIGKILL, without any clean-up."""

    def __init__(self, installation: Installation, environment: Mapping[str, str]) -> None:
        self._installation = installation
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None
        self._starts = 0

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    async def start(self, *, may_die: bool = False) -> None:
        """Start and wait until it polls; one that `may_die` may meet its end before it says so."""
        self._starts += 1
        ready = self._installation.home / f"ready-process-{id(self)}-{self._starts}"
        self._installation.home.mkdir(parents=True, exist_ok=True)  # stores elsewhere make none
        with (self._installation.home / "worker.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "perdure.worker",
                env={
                    **os.environ,
                    **self._installation.settings.as_environment(),
                    "TEMPORAL_ADDRESS": self._installation.address,
                    "PERDURE_READY_FILE": str(ready),
                    **self._environment,
                },
                stdout=log,
                stderr=log,
            )  # fmt: skip
        await eventually(lambda: ready.exists() or self._ended)
        if self._ended and not may_die:
            text = (self._installation.home / "worker.log").read_text()
            raise AssertionError(f"the worker ended:\n{text[-3000:]}")

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return None if self._process is None else self._process.returncode

    @property
    def _ended(self) -> bool:
        return self._process is None or self._process.returncode is not None

    async def kill(self) -> None:
        """End it like a power cut."""
        await self._signal(signal.SIGKILL)

    async def terminate(self) -> None:
        """End it politely."""
        await self._signal(signal.SIGTERM)

    def ask_to_end(self) -> None:
        """SIGTERM, without waiting for what comes of it."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    async def gone(self) -> None:
        """Wait until it has ended by itself."""
        assert self._process is not None
        await asyncio.wait_for(self._process.wait(), 60)

    async def end(self) -> None:
        """End it if it still runs."""
        if not self._ended:
            await self._signal(signal.SIGKILL)

    async def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        await self._process.wait()


@asynccontextmanager
async def dev_server(
    *extra: str, port: int | None = None, ui_port: int | None = None, prepared: bool = True
) -> AsyncGenerator[WorkflowEnvironment]:
    """A tuned dev server in memory; with the Web UI when it gets a port for it.

    One that is not `prepared` lacks the search attributes.
    """
    environment = await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(temporal_binary()),
        dev_server_extra_args=[*FAST_SERVER, *extra],
        port=port,
        ui=ui_port is not None,
        ui_port=ui_port,
    )
    try:
        if prepared:
            await register_search_attributes(environment.client)
        yield environment
    finally:
        await environment.shutdown()


@asynccontextmanager
async def installation(
    home: Path, address: str, *, timing: Timing | None = None, **settings: object
) -> AsyncGenerator[Installation]:
    """An installation over an empty home; without workers until a test starts one.

    `waits`, among the settings, are those of its gateway; `now` is the clock of its host.
    """
    waits = settings.pop("waits", PATIENT)
    assert isinstance(waits, Waits)
    # Tests hand settings on as objects.
    now = cast(Callable[[], datetime], settings.pop("now", utc_now))
    merged = {
        "heartbeat_s": 4.0,
        "sticky_s": 1.0,
        "backoff_initial_s": 0.05,
        "backoff_max_s": 0.2,
        "shutdown_grace_s": 2.0,
        # Installations of several tests share a server, and so a namespace.
        "task_queue": f"perdure-{uuid.uuid4().hex[:12]}",
        **settings,
    }
    loaded = Settings.load(home=home, **merged)
    loaded._temporal = replace(loaded._temporal, address=address)
    async with open_parts(loaded) as parts:
        client = await connect(
            loaded, fallback=address, blobs=parts.stores.blobs, telemetry=parts.telemetry
        )
        facts = InstallationInfo(
            address=address,
            timing=timing or Timing(heartbeat=loaded.heartbeat_s),
            version=VERSION,
            digest=parts.stores.digest,
            task_queue=loaded.task_queue,
            limits=loaded.open_limits,
            notifies=bool(loaded.notify_webhook or loaded.notify_command),
        )
        gateway = Gateway(
            connect=_ready(client),
            blobs=parts.stores.blobs,
            records=parts.stores.records,
            journal=parts.stores.journal,
            facts=facts,
            resolve=Resolver(
                parts.models,
                parts.default_model,
                parts.tools,
                Plugins(checks=None),  # a test's worker may load modules with checks
                loops=parts.loops,
                now=utc_now,
                rubric_problems=check_problems,
            ).resolve,
            settle=Settling(
                sessions=parts.stores.sessions,
                projects=parts.stores.projects,
                now=utc_now,
                words=facts.words,
            ).settle,
            rubric_problems=check_problems,
            waits=waits,
            now=now,
            prepare=register_search_attributes,
            audit=AuditTrail(parts.stores.audit, now=utc_now),
            why_not=partial(why_not_replayed, loaded, parts.stores.blobs),
        )
        yield Installation(home, address, loaded, parts, gateway, client)


def _ready(client: Client):
    async def connected() -> Client:
        return client

    return connected
