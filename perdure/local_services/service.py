"""Starts one service, probes it, restarts it with back-off on the same port, and ends it."""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.event_log import get_logger
from perdure.local_services.logs import last_words, log_end
from perdure.local_services.processes import (
    ENDED,
    ProcessRef,
    end,
    end_rest_of_group,
    process_ref,
)
from perdure.local_services.state import PartState, PartStatus

CPU_STEP_S = 0.5  # a process that only waits also uses a little
READ_STEP_BYTES = 1024 * 1024
LOOK_EVERY_S = 1.0
# More than one, as each try before the first success plans the ports anew.
FIRST_TRIES = 3
# The system reports the end of a process at once; probes find one that hangs.
PROBE_EVERY_S = 10.0
PROBE_AGAIN_S = 2.0
MISSED_PROBES = 3
# While it makes progress (processor time, reads, log lines); an idle one is given up sooner.
START_AT_MOST_S = 900.0
READY_POLL_S = 0.05
BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 30.0
STEADY_AFTER_S = 30.0
TETHER = Path(__file__).with_name("die_with_parent.py")
_log = get_logger(__name__)


class Progress:
    """Tells whether a starting process makes progress: processor time, bytes read, log lines.

    Args:
        pid: the process.
        log: the file that it writes to.
        patience_s: how long it may make no progress.
        at_most_s: the longest that a start may take.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        pid: int,
        log: Path,
        *,
        patience_s: float,
        at_most_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pid = pid
        self._log = log
        self._patience = patience_s
        self._clock = clock
        self._began = self._moved = self._looked = clock()
        self._end = self._began + at_most_s
        self._marks = self._look()

    def stalled(self) -> str:
        """Why not to wait any longer; empty while the process makes progress."""
        now = self._clock()
        if now - self._looked >= LOOK_EVERY_S:
            self._looked = now
            marks = self._look()
            if marks != self._marks:
                self._marks, self._moved = marks, now
        if now >= self._end:
            return f"not ready after {now - self._began:.0f} s"
        if now - self._moved >= self._patience:
            return f"not ready after {now - self._began:.0f} s, and idle for {self._patience:.0f} s"
        return ""

    def _look(self) -> tuple[int, int, int]:
        cpu, read = 0.0, 0
        with suppress(*ENDED, AttributeError):
            process = psutil.Process(self._pid)
            # With its children: the command may be a script that only waits for what it started.
            family = [process, *process.children(recursive=True)]
            cpu = sum(sum(one.cpu_times()[:2]) for one in family)
            # Last, as macOS and some containers do not count it; the time above stays then.
            read = process.io_counters().read_bytes
        return int(cpu / CPU_STEP_S), read // READ_STEP_BYTES, log_end(self._log)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCommand:
    """How to start a service, and `ready`, which tells by process id whether it serves.

    A start may take long as long as it makes progress; `idle_within_s` is how long it may make
    none. `answers` is a cheaper probe for a service that has been ready, if there is one.
    `refuses_with` is the exit code with which it says that another start would end the same. It
    starts in `folder`; None: in the current one.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    ready: Callable[[int], Awaitable[bool]]
    answers: Callable[[int], Awaitable[bool]] | None = None
    refuses_with: int | None = None
    folder: Path | None = None
    port: int | None = None
    idle_within_s: float = 30.0
    grace_s: float = 10.0


class Service:
    """Keeps one service alive. Until it has served once, each start asks `plan` for a new command.

    So a port that another program has taken is replaced at first. Later it is kept, because others
    know the address by then. An `optional` service that does not start is reported and retried.
    `settled` is set once it serves, or has failed for the first time.
    """

    def __init__(
        self,
        name: str,
        plan: Callable[[], ServiceCommand],
        *,
        on_change: Callable[[], None],
        optional: bool = False,
    ) -> None:
        self.name = name
        self.optional = optional
        self.ready = asyncio.Event()
        self.settled = asyncio.Event()
        self.process: ProcessRef | None = None
        self.launch: ServiceCommand | None = None
        self._plan = plan
        self._on_change = on_change
        self._status: PartStatus = "starting"
        self._restarts = 0
        self._detail = ""
        self._served = False
        self._refused = False
        self._said_from = 0

    @property
    def state(self) -> PartState:
        port = self.launch.port if self.launch else None
        return PartState(
            name=self.name,
            status=self._status,
            process=self.process,
            port=port,
            restarts=self._restarts,
            detail=self._detail,
            optional=self.optional,
        )

    async def keep(self) -> None:
        """Run until cancelled.

        Raises:
            RuntimeUnavailable: it never served, and is not optional.
        """
        failures = 0
        while True:
            began = asyncio.get_running_loop().time()
            why = await self._once()
            if not self._served:
                failures += 1
                if (self._refused or failures >= FIRST_TRIES) and not self.optional:
                    raise self._never_started(why)
            elif asyncio.get_running_loop().time() - began > STEADY_AFTER_S:
                # It served well: its next failure must not wait as if it were the tenth.
                failures = 0
            else:
                failures += 1
            self._restarts += 1
            self._mark("restarting" if self._served else "failed", why)
            self.settled.set()
            _log.warning("part_restarting", part=self.name, why=why, restarts=self._restarts)
            await asyncio.sleep(backoff_s(failures))

    def mark_stopped(self) -> None:
        self.process = None
        self._mark("stopped")

    async def _once(self) -> str:
        """Start the service and wait until it is down; returns why."""
        if self.launch is None or not self._served:
            self.launch = self._plan()
        # Before the start: the log also holds the last words of earlier starts.
        self._said_from = log_end(self.launch.log)
        try:
            launch = self.launch
            child = await spawn(
                launch.command, launch.environment, launch.log, folder=launch.folder
            )
        except OSError as error:  # no room for the log, or no more processes; may pass
            return f"it cannot be started: {error.strerror}"
        self.process = process_ref(child.pid)
        self._mark("starting" if not self._served else "restarting")
        exited = asyncio.create_task(child.wait())
        try:
            why = await self._until_ready(self.launch, child.pid, exited)
            return why or await self._until_down(self.launch, child.pid, exited)
        finally:
            # The process must have ended before the next one starts.
            self.ready.clear()
            if self.process is not None:
                await end(self.process, grace_s=self.launch.grace_s)
            # Reaps it. `end` counts a zombie as ended, and each one left keeps a process id.
            await exited
            end_rest_of_group(child.pid)
            self.process = None

    async def _until_ready(
        self, launch: ServiceCommand, pid: int, exited: asyncio.Task[int]
    ) -> str:
        progress = Progress(
            pid, launch.log, patience_s=launch.idle_within_s, at_most_s=START_AT_MOST_S
        )
        while not exited.done():
            if await self._serves(launch.ready, pid):
                self._served = True
                self._mark("running")
                self.ready.set()
                self.settled.set()
                return ""
            if why := progress.stalled():
                return why
            await asyncio.wait({exited}, timeout=READY_POLL_S)
        self._refused = exited.result() == launch.refuses_with
        return f"ended with {exit_words(exited.result())}"

    async def _until_down(self, launch: ServiceCommand, pid: int, exited: asyncio.Task[int]) -> str:
        missed = 0
        while missed < MISSED_PROBES:
            await asyncio.wait({exited}, timeout=PROBE_AGAIN_S if missed else PROBE_EVERY_S)
            if exited.done():
                return f"ended with {exit_words(exited.result())}"
            missed = 0 if await self._serves(launch.answers or launch.ready, pid) else missed + 1
        return f"did not answer {MISSED_PROBES} times"

    async def _serves(self, ask: Callable[[int], Awaitable[bool]], pid: int) -> bool:
        """Whether it answers; a probe that raises counts as no answer."""
        try:
            return await ask(pid)
        except Exception as error:
            _log.warning("probe_failed", part=self.name, error=repr(error))
            return False

    def _mark(self, status: PartStatus, detail: str = "") -> None:
        self._status, self._detail = status, detail
        self._on_change()

    def _never_started(self, why: str) -> RuntimeUnavailable:
        self._mark("failed", why)
        said = last_words(self.launch.log, since=self._said_from) if self.launch else ""
        return RuntimeUnavailable(
            f"The service {self.name!r} does not start: {why}." + (f"\n{said}\n" if said else ""),
            cure=f"Read `perdure logs {self.name}`; `perdure doctor` checks the rest.",
        )


def backoff_s(failures: int) -> float:
    """How long to wait for the next start after so many failures in a row."""
    # Without a bound, a part that fails for hours ends all others: 2 ** 1024 fits no float.
    return min(BACKOFF_FIRST_S * 2 ** min(max(failures - 1, 0), 16), BACKOFF_MAX_S)


async def spawn(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    *,
    answers: bool = False,
    folder: Path | None = None,
) -> asyncio.subprocess.Process:
    """Start a command, tied to our life, in its own group, so that Ctrl-C does not reach it.

    What it writes goes to the log; with `answers`, standard output is left for the caller to read.
    """
    tied = (sys.executable, "-I", "-S", str(TETHER), str(os.getpid()), *command)
    with log.open("ab") as file:
        return await asyncio.create_subprocess_exec(
            *tied,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if answers else file,
            stderr=file,
            env=dict(environment),
            cwd=folder,
            process_group=0,
        )


def exit_words(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
