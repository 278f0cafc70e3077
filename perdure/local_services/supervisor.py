"""The supervisor: starts the services in order, keeps them alive, and ends on a signal or idle."""

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from temporalio.client import Client

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import NotAllowed, PerdureError, RuntimeUnavailable
from perdure.event_log import get_logger
from perdure.local_services import service_commands, temporal_server
from perdure.local_services.apply_settings import digests
from perdure.local_services.idle_shutdown import last_use, until_idle
from perdure.local_services.plugin_trial import require_plugins
from perdure.local_services.processes import end_surely, process_ref, signals_set, try_lock
from perdure.local_services.service import Service, ServiceCommand
from perdure.local_services.service_plan import Plans
from perdure.local_services.state import (
    HomeFiles,
    RuntimeState,
    RuntimeStatus,
    read_state,
    write_state,
)
from perdure.local_services.ui_guard import UiGuard
from perdure.local_services.watcher_link import WatcherLink

OPTIONAL_WITHIN_S = 15.0
WRITE_AGAIN_S = 5.0
NOT_ALONE = 75  # the exit code of a detached supervisor whose home folder has another one
OnChange = Callable[[RuntimeState], None]
_log = get_logger(__name__)


async def supervise(
    settings: Settings,
    *,
    detached: bool = False,
    deaths: int = 0,
    idle: timedelta | None = None,
    on_change: OnChange | None = None,
) -> bool:
    """Run the services of the home folder until a signal, cancellation or `idle`.

    A `detached` supervisor has a watcher that restarts it if it dies; `deaths` counts the restarts.
    Returns False at once if the home folder has another supervisor.

    Raises:
        RuntimeUnavailable: a service does not start, or the named server does not answer.
    """
    files = HomeFiles(settings.home)
    files.make()
    with try_lock(files.lock) as mine:
        if not mine:
            return False
        # With the lock and before the first start: leftovers hold the ports and the database.
        await end_leftovers(files, grace_s=settings.embedded_grace_s)
        supervisor = _Supervisor(settings, files, detached=detached, idle=idle, on_change=on_change)
        await supervisor.run(deaths=deaths)
    return True


async def end_leftovers(files: HomeFiles, *, grace_s: float) -> int:
    """End services that a dead supervisor left behind; returns how many there were.

    Call it only with the lock, or if the supervisor of the state file is known to be gone.

    Raises:
        RuntimeUnavailable: one cannot be ended.
    """
    state = read_state(files)
    if state is None:
        return 0
    left = [part.process for part in state.parts if part.process is not None]
    grace_s = max(grace_s, state.grace_s)
    ended = await asyncio.gather(*(end_surely(process, grace_s=grace_s) for process in left))
    if any(ended):
        _log.warning("leftovers_ended", count=sum(ended))
    return sum(ended)


class _Supervisor:
    """One supervisor's services, and its state file."""

    def __init__(
        self,
        settings: Settings,
        files: HomeFiles,
        *,
        detached: bool,
        idle: timedelta | None,
        on_change: OnChange | None,
    ) -> None:
        me = process_ref(os.getpid())
        assert me is not None  # we are alive
        before = read_state(files)
        self._settings = settings
        self._files = files
        self._idle = idle
        self._on_change = on_change
        self._plans = Plans(settings, files, before.ports if before else {})
        self._guard: UiGuard | None = None
        self._keepers: dict[Service, asyncio.Task[None]] = {}
        self._given_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watch: WatcherLink | None = None
        self._writes_again: asyncio.TimerHandle | None = None
        self._state = RuntimeState(
            supervisor=me,
            status="starting",
            endpoints=self._plans.endpoints,
            settings=digests(files, settings),
            started_at=datetime.now(UTC),
            detached=detached,
            grace_s=settings.embedded_grace_s,
        )

    async def run(self, *, deaths: int) -> None:
        status: RuntimeStatus = "stopped"
        error = ""
        with signals_set() as told_to_stop:
            if self._state.detached:
                self._watch = WatcherLink(self._files.home, deaths=deaths, on_change=self._publish)
                self._watch.start()
            work = asyncio.create_task(self._start_and_stay())
            stop = asyncio.create_task(told_to_stop.wait())
            try:
                done, _ = await asyncio.wait(
                    {work, stop, self._given_up}, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done - {stop}:
                    await task
                # Before the services end: killed meanwhile, this process must not come back.
                await self._end_watch()
            except PerdureError as failure:
                # Dismissed too: a start that fails would fail again, and its caller is told why.
                status, error = "failed", str(failure)
                await self._end_watch()
                raise
            finally:
                work.cancel()
                stop.cancel()
                await asyncio.wait({work, stop})
                await self._end(status, error)

    async def _start_and_stay(self) -> None:
        self._publish("starting")
        client = await self._start_temporal()
        for number in range(1, self._settings.workers + 1):
            name = "worker" if number == 1 else f"worker-{number}"
            self._keep(name, self._plans.worker(name))
        if service_commands.wants_api(self._settings):
            self._keep("api", self._plans.api, optional=self._settings.api == "auto")
        await self._all_ready()
        await self._optional_settled()
        self._publish("ready")
        _log.info("services_ready", **self._plans.endpoints.model_dump())
        await self._idle_for_all(client)
        _log.info("services_idle", minutes=self._settings.idle_minutes)

    async def _idle_for_all(self, client: Client) -> None:
        """Return as `stopping` once the services are idle, and no command counts on them."""
        shared = self._settings.temporal.address is not None
        while True:
            seen = await until_idle(client, self._files, after=self._idle, shared=shared)
            self._publish("stopping")
            # A command records its use before it reads the state, so one of both is noticed.
            if last_use(self._files) == seen:
                return
            self._publish("ready")

    async def _start_temporal(self) -> Client:
        """Start the embedded server, or connect to the named one, and start the model."""
        named: Client | None = None
        if self._settings.temporal.address is not None:
            named = await temporal_server.connect_named(self._settings)
            # Imported on demand, as every command loads this module.
            from perdure.local_services.register_search_attributes import register_search_attributes

            await register_search_attributes(named)
        else:
            names = frozenset(name.lower() for name in self._settings.ui_hosts)
            # First: the server is told at its start where its Web UI listens behind the guard.
            self._guard = await UiGuard.before(self._plans.place_ui, names=names)
            self._keep("temporal", self._plans.temporal)
            if service_commands.wants_codec(self._settings):
                self._keep("codec", self._plans.codec, optional=True)
        if service_commands.wants_model(self._settings):
            unasked = self._settings.local_model == "auto"
            optional = unasked and service_commands.has_key(self._settings)
            self._keep("model", self._plans.model, optional=optional)
        await self._all_ready()
        return named or await self._prepared()

    async def _prepared(self) -> Client:
        endpoints = self._plans.endpoints
        client = await temporal_server.connect(endpoints.temporal_address, endpoints.namespace)
        if client is None:
            raise RuntimeUnavailable(
                "The embedded Temporal server stopped answering while it was prepared.",
                cure="Read `perdure logs temporal`, then try again.",
            )
        await temporal_server.prepare_embedded(client)
        return client

    def _keep(
        self, name: str, plan: Callable[[], ServiceCommand], *, optional: bool = False
    ) -> None:
        part = Service(name, plan, on_change=lambda: self._publish(), optional=optional)
        keeper = asyncio.create_task(part.keep(), name=f"keep {name}")
        keeper.add_done_callback(self._gave_up)
        self._keepers[part] = keeper

    def _gave_up(self, keeper: asyncio.Task[None]) -> None:
        if keeper.cancelled() or self._given_up.done():
            return
        if (error := keeper.exception()) is not None:
            self._given_up.set_exception(error)

    async def _all_ready(self) -> None:
        # If a service gives up, `run` ends and cancels this wait.
        needed = (part for part in self._keepers if not part.optional)
        await asyncio.gather(*(part.ready.wait() for part in needed))

    async def _optional_settled(self) -> None:
        """Wait a moment for optional services, so that callers find them; then go on without."""
        waits = [
            asyncio.create_task(part.settled.wait()) for part in self._keepers if part.optional
        ]
        if waits:
            _, late = await asyncio.wait(waits, timeout=OPTIONAL_WITHIN_S)
            for wait in late:
                wait.cancel()

    async def _end_watch(self) -> None:
        """Dismiss the watcher, since this supervisor ends in order.

        An unexpected error does not come here, so that the watcher restarts the supervisor.
        """
        if self._watch is not None:
            await self._watch.dismiss()

    async def _end(self, status: RuntimeStatus, error: str) -> None:
        """End the workers first, so that they can still report, then the services that they use."""
        self._publish("stopping")
        workers = [part for part in self._keepers if part.name.startswith("worker")]
        others = [part for part in self._keepers if part not in workers]
        for parts in (workers, others):
            keepers = [self._keepers[part] for part in parts]
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)
            for part in parts:
                part.mark_stopped()
        if self._guard is not None:
            await self._guard.close()
        if self._given_up.done():
            self._given_up.exception()  # retrieved, or asyncio would log it
        self._publish(status, error)
        # Without the lock, a later write could hide the state of the next supervisor.
        self._stop_writing()

    def _publish(self, status: RuntimeStatus | None = None, error: str = "") -> None:
        self._state = self._state.model_copy(
            update={
                "status": status or self._state.status,
                "error": error,
                "endpoints": self._plans.endpoints,
                "watcher": self._watch.process if self._watch else None,
                "ports": self._plans.ports,
                "parts": tuple(part.state for part in self._keepers),
            }
        )
        self._write()
        if self._on_change is not None:
            self._on_change(self._state)

    def _write(self) -> None:
        """Write the state, and if that fails again later: commands wait for what it says."""
        self._stop_writing()
        try:
            write_state(self._files, self._state)
        except OSError as failure:  # a full disk must not take the services down
            _log.error("state_not_written", error=failure.strerror)
            loop = asyncio.get_running_loop()
            self._writes_again = loop.call_later(WRITE_AGAIN_S, self._write)

    def _stop_writing(self) -> None:
        if self._writes_again is not None:
            self._writes_again.cancel()
            self._writes_again = None


async def up(settings: Settings, on_change: OnChange) -> None:
    """Run the services until Ctrl-C, SIGTERM or `perdure down`, also if they are idle.

    `on_change` gets every new state.

    Raises:
        NotAllowed: the services of this home folder run already.
        RuntimeUnavailable: a service does not start, or the named server does not answer.
        InvalidInput: a plugin does not load.
    """
    files = HomeFiles(settings.home)
    files.make()
    await require_plugins(settings, files)
    if not await supervise(settings, on_change=on_change):
        raise NotAllowed(
            f"The services of {settings.home} run already.",
            cure="Look at `perdure logs --follow`, or stop them with `perdure down`.",
        )
