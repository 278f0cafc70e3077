"""The port `Runtime`: starts the supervisor of a home folder, reads its state, stops it."""

import asyncio
import os
import shutil
import sys
import time

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.domain.ports import Endpoints
from perdure.local_services import temporal_server
from perdure.local_services.apply_settings import OnProgress, must_restart
from perdure.local_services.idle_shutdown import touch
from perdure.local_services.logs import last_words, log_end
from perdure.local_services.processes import (
    POLL_S,
    ProcessRef,
    end_surely,
    is_alive,
    process_ref,
    try_lock,
    usable,
)
from perdure.local_services.service import Progress
from perdure.local_services.state import HomeFiles, PartState, RuntimeState, read_state
from perdure.local_services.supervisor import NOT_ALONE, end_leftovers

MODULE = "perdure.local_services"
# As long as a service may take to start.
STARTED_BY_OTHERS_S = 900.0
IDLE_WITHIN_S = 60.0
STOP_WITHIN_S = 45.0
WATCHER_GRACE_S = 5.0
# Longer than the longest pause between two starts of a service.
RESTARTED_WITHIN_S = 60.0
LEAST_FREE_BYTES = 1_000_000


def spawn_supervisor(files: HomeFiles, settings: Settings) -> ProcessRef:
    """Start a detached supervisor with these settings and return its process.

    It outlives its starter, so it is spawned without a handle that would have to be awaited.
    """
    environment = settings.for_services()
    environment["PERDURE_HOME"] = str(settings.home)
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log = files.log("supervisor")
    with usable(log):
        # Before the spawn, whose error would not say which of its files it is about.
        os.close(os.open(log, append, 0o600))
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-m", MODULE],
        environment,
        setsid=True,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
    )
    started = process_ref(pid)
    if started is None:
        raise RuntimeUnavailable(
            "The supervisor ended at once.", cure="Read `perdure logs supervisor`, then try again."
        )
    return started


class _Wait(Exception):
    """Others start or stop the services; the look at them is repeated for so long."""

    def __init__(self, why: str, *, at_most_s: float = STARTED_BY_OTHERS_S) -> None:
        super().__init__(why)
        self.why = why
        self.at_most_s = at_most_s


class EmbeddedRuntime:
    """The services of one home folder, as a client of their supervisor."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._files = HomeFiles(settings.home)

    async def ensure(
        self, on_progress: OnProgress = lambda _: None, *, exactly: bool = False
    ) -> Endpoints:
        """Start what is missing and return the addresses of all services.

        Several processes may call it at once: only one supervisor is started.

        Args:
            on_progress: is told each step.
            exactly: running services also lose the settings that the caller does not have.

        Raises:
            RuntimeUnavailable: a service does not start, or the named server does not answer.
            InvalidInput: a plugin does not load; what runs goes on.
        """
        self._files.make()
        # First, so that services that are about to end as idle stay for this command.
        touch(self._files)
        # Before the wait for others, who may be stuck at the same server.
        if self._settings.temporal.address is not None:
            await temporal_server.connect_named(self._settings)
        waits: dict[str, float] = {}
        while True:
            wait = _Wait("another command is starting the services")
            with try_lock(self._files.start_lock) as mine:
                if mine:
                    try:
                        return await self._ensure(on_progress, exactly=exactly)
                    except _Wait as found:
                        wait = found
            if wait.why not in waits:
                waits[wait.why] = time.monotonic()
                on_progress(wait.why)
            if time.monotonic() - waits[wait.why] > wait.at_most_s:
                raise RuntimeUnavailable(
                    f"The services do not come up: for {wait.at_most_s:.0f} s {wait.why}.",
                    cure="Look at `perdure logs supervisor`, or `perdure down` and try again.",
                )
            await asyncio.sleep(POLL_S)

    async def state(self) -> RuntimeState | None:
        """The state of the running services; None if no supervisor is alive."""
        state = read_state(self._files)
        return state if state is not None and is_alive(state.supervisor) else None

    async def down(self) -> bool:
        """Stop supervisor and services, also leftovers of a crash; False if nothing ran.

        Raises:
            RuntimeUnavailable: a process cannot be ended, such as one of another user.
        """
        state = await self.state()
        if state is not None:
            await end_surely(state.supervisor, grace_s=self._stop_within_s(state))
        # After the supervisor: while that lives, it replaces a lost watcher.
        await self._end_watcher()
        left = await end_leftovers(self._files, grace_s=self._settings.embedded_grace_s)
        return left > 0 or state is not None

    def touch(self) -> None:
        """Record that the services are still used (by a page or an API), so that they stay up."""
        touch(self._files)

    def _stop_within_s(self, state: RuntimeState) -> float:
        # The workers drain first, with the grace period that they were started with.
        return STOP_WITHIN_S + 2 * max(state.grace_s, self._settings.embedded_grace_s)

    async def _end_watcher(self) -> None:
        """End the watcher, which would restart the supervisor, or has just become the new one."""
        left = read_state(self._files)
        if left is not None and left.watcher is not None:
            await end_surely(left.watcher, grace_s=WATCHER_GRACE_S)

    async def _ensure(self, on_progress: OnProgress, *, exactly: bool) -> Endpoints:
        state = await self.state()
        if state is not None and state.status in ("stopping", "stopped", "failed"):
            raise _Wait("the services are stopping", at_most_s=self._stop_within_s(state))
        # Imported here, as commands that start nothing load no plugins.
        from perdure.local_services.plugin_trial import require_plugins

        restarts = state is not None and await must_restart(
            state, self._files, self._settings, on_progress, exactly=exactly
        )
        if state is not None and not restarts:
            return await self._ready(state.supervisor, on_progress)
        # Before anything ends: a plugin that does not load must not cost the services that run.
        await require_plugins(self._settings, self._files, on_progress)
        if restarts:
            await self.down()
        await self._end_watcher()
        on_progress("starting the services")
        log = self._files.log("supervisor")
        said_from = log_end(log)
        supervisor = spawn_supervisor(self._files, self._settings)
        return await self._ready(supervisor, on_progress, said_from=said_from)

    async def _ready(
        self, supervisor: ProcessRef, on_progress: OnProgress, *, said_from: int | None = None
    ) -> Endpoints:
        """Wait until the supervisor reports that all services run, as long as it makes progress.

        Once it has written its state there is no time limit here for a first start, because it
        gives up services that make no progress itself.

        Args:
            supervisor: the process to wait for.
            on_progress: is told each step.
            said_from: where its words begin in its log; None if it was there before.

        Raises:
            RuntimeUnavailable: it ended, or a service does not start.
            _Wait: others started, stopped or replaced it meanwhile.
        """
        progress = Progress(
            supervisor.pid,
            self._files.log("supervisor"),
            patience_s=IDLE_WITHIN_S,
            at_most_s=STARTED_BY_OTHERS_S,
        )
        told: dict[str, PartState] = {}
        down_since: dict[str, float] = {}
        while True:
            # Before the state is read: a supervisor that fails writes why, and ends after that.
            alive = is_alive(supervisor)
            state = read_state(self._files)
            # Until it writes its own, the file has the state of the supervisor before it.
            ours = state if state is not None and state.supervisor == supervisor else None
            if not alive:
                raise _ended(self._files, supervisor, ours, said_from)
            if ours is not None and ours.is_serving and not told:
                return ours.endpoints  # it ran already: there is no progress to report
            if ours is not None:
                _tell(ours, told, on_progress)
            if ours is not None and ours.is_serving:
                return ours.endpoints
            if ours is not None:
                _require_restarts(self._files, ours, down_since)
            if ours is None and (why := progress.stalled()):
                raise RuntimeUnavailable(
                    f"The supervisor of the services does not come up: {why}.",
                    cure="Read `perdure logs supervisor`, or `perdure down` and try again.",
                )
            await asyncio.sleep(POLL_S)


def _tell(state: RuntimeState, told: dict[str, PartState], on_progress: OnProgress) -> None:
    """Report each change of a service's status once, and why it is down."""
    for part in state.parts:
        before = told.get(part.name)
        # The reason is gone again while the service starts anew.
        if before and before.status == part.status and part.detail in ("", before.detail):
            continue
        told[part.name] = part
        port = f" on port {part.port}" if part.port and part.status == "running" else ""
        why = f" ({part.detail})" if part.detail else ""
        on_progress(f"{part.name}: {part.status}{port}{why}")


def _require_restarts(files: HomeFiles, state: RuntimeState, since: dict[str, float]) -> None:
    """Refuse to wait longer for a service that had served and does not come back.

    Only one with a reason counts, whose new start has failed: a start may take long.

    Args:
        files: of the home folder.
        state: what the supervisor says now.
        since: by name when each service was first seen to be down, which is kept here.

    Raises:
        RuntimeUnavailable: a service was tried again for long enough.
    """
    now = time.monotonic()
    for part in state.parts:
        if part.optional or part.status != "restarting":
            since.pop(part.name, None)
        elif part.detail and now - since.setdefault(part.name, now) >= RESTARTED_WITHIN_S:
            said = last_words(files.log(part.name))
            raise RuntimeUnavailable(
                f"The service {part.name!r} does not start again: {part.detail}."
                + (f"\n{said}\n" if said else ""),
                cure=f"Read `perdure logs {part.name}`; once its cause is gone, it comes back.",
            )


def _ended(
    files: HomeFiles, supervisor: ProcessRef, state: RuntimeState | None, said_from: int | None
) -> RuntimeUnavailable | _Wait:
    """Why a supervisor ended before the services were ready, or that this is no failure."""
    if state is not None and state.error:
        return RuntimeUnavailable(state.error)
    if said_from is None:
        return _Wait("the services are stopping")
    if _exit_code(supervisor.pid) == NOT_ALONE:
        return _Wait("another program starts or stops the services", at_most_s=IDLE_WITHIN_S)
    said = last_words(files.log("supervisor"), since=said_from)
    free = shutil.disk_usage(files.home).free
    if free < LEAST_FREE_BYTES:
        return RuntimeUnavailable(
            f"The services cannot start: the disk of {files.home} is full ({free} bytes free).",
            cure="Free disk space, or name another home folder (PERDURE_HOME), and try again.",
        )
    return RuntimeUnavailable(
        f"The supervisor ended before the services were ready.\n{said}\n",
        cure="Read `perdure logs supervisor`, then try again.",
    )


def _exit_code(child: int) -> int | None:
    try:
        pid, status = os.waitpid(child, os.WNOHANG)
    except ChildProcessError:  # somebody else has reaped it
        return None
    return os.waitstatus_to_exitcode(status) if pid else None
