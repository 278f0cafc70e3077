"""Builds what the command line needs from settings.

Modules that only some commands need are imported where they are used, since imports take time.
"""

import asyncio
import getpass
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.about import VERSION
from perdure.adapters.llm.access import default_model_of, model_notes
from perdure.adapters.logging.setup import configure_logging
from perdure.adapters.settings.config_files import KNOWN, ConfigFiles
from perdure.adapters.settings.layers import plugin_place, require_plugin_files
from perdure.adapters.settings.variables import Settings
from perdure.adapters.settings.working_folder import working_folder
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.temporal.encryption_keys import codec_token, encryption_keys
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.foundation.errors import InvalidInput, NotFound, RuntimeUnavailable
from perdure.domain.foundation.problems import Problem
from perdure.interfaces.app_context import AppContext, Connect
from perdure.interfaces.services import (
    Check,
    Collected,
    Killed,
    LogEntry,
    MovedContent,
    OnProgress,
    Replayed,
    Rewrapped,
    RuntimeView,
    Services,
)
from perdure.local_services.embedded_runtime import EmbeddedRuntime
from perdure.local_services.logs import read_logs

if TYPE_CHECKING:
    from pydantic import BaseModel

    from perdure.domain.installation.encryption_keys import KeyUse
    from perdure.domain.llm.attachments import Measures
    from perdure.domain.llm.file_signatures import MediaType
    from perdure.domain.roles.definition_library import DefinitionStore

DEFAULTS_FILE = "perdure.yaml"


def app_context(settings: Settings | None = None) -> AppContext:
    """The context of this process over one home folder."""
    own = settings or Settings.found(folder=working_folder())
    installation = _Installation(own)
    runtime = EmbeddedRuntime(own)
    # A command prints its own output, so by default only warnings are logged; in words, as its
    # output in a pipe is text too.
    told = own.log_level if "log_level" in own.model_fields_set else "warning"
    configure_logging(level=told, json=own.log_format == "json")
    return AppContext(
        connect=installation.connect,
        up=installation.up,
        # For `perdure up` alone: other commands may come from a shell with fewer settings.
        ensure=partial(runtime.ensure, exactly=True),
        down=runtime.down,
        state=runtime.state,
        logs=installation.logs,
        run_worker=installation.run_worker,
        run_codec=installation.run_codec,
        run_api=installation.run_api,
        setup_model=_setup_model,
        replay=installation.replay,
        doctor=installation.doctor,
        collect=installation.collect,
        move_blobs=installation.move_blobs,
        keys=_Keys(own, installation.connect),
        kill_worker=installation.kill_worker,
        lay_out=_lay_out,
        loops=installation.loops,
        in_home=lambda home: app_context(Settings.found({"home": home}, folder=working_folder())),
        with_plugins=lambda plugins: app_context(_with_plugins(own, plugins)),
        config=ConfigFiles(own.home, working_folder()),
        setting_names=KNOWN,
        home=own.home,
        named_home="home" in own.model_fields_set,
        folder=working_folder(),
        user=_user(),
        user_defaults=own.home / DEFAULTS_FILE,
        default_model=default_model_of(own),
        now=utc_now,
        version=VERSION,
        rate_per_minute=own.api_rate_per_minute,
        token_days=own.api_token_days or None,
        stdout=sys.stdout,
        stderr=sys.stderr,
        stdin=sys.stdin,
        rubric_problems=_rubric_problems,
        model_notes=model_notes,
        measure=_measure,
        file_formats=_file_formats,
    )


def bare_context() -> AppContext:
    """The context without settings files, for commands that correct a wrong one."""
    return app_context(Settings.found(files=False))


def _with_plugins(own: Settings, plugins: Sequence[str]) -> Settings:
    """The same settings with more plugins; raises `InvalidInput` if the file of one is missing."""
    given: dict[str, object] = {"plugins": tuple(plugins)}
    if "home" in own.model_fields_set:
        given["home"] = own.home
    found = Settings.found(given, folder=working_folder())
    require_plugin_files(plugin_place(name, Path.cwd()) for name in plugins)
    return found


@cache  # each runtime has threads of its own, and the prompt connects again and again
def _keep_core_quiet() -> None:
    """Keep warnings of Temporal's core off the screen.

    It warns of each attempt to reach a server that is away. The command says so itself, in words.
    """
    from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

    errors = LoggingConfig(filter=TelemetryFilter(core_level="ERROR", other_level="ERROR"))
    Runtime.set_default(
        Runtime(telemetry=TelemetryConfig(logging=errors)), error_if_already_set=False
    )


class _Installation:
    """The operations of one home folder."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def connect(
        self, *, start: bool, on_progress: OnProgress, with_worker: bool = False
    ) -> AbstractAsyncContextManager[Services]:
        from perdure.composition.client_services import services

        if self._settings.log_level != "debug":
            _keep_core_quiet()
        return services(
            self._settings, start=start, on_progress=on_progress, with_worker=with_worker
        )

    async def up(self, on_change: Callable[[RuntimeView], None]) -> None:
        from perdure.local_services.supervisor import up

        await up(self._settings, on_change)

    def loops(self) -> "DefinitionStore":
        from perdure.adapters.definitions.store import LoopFiles

        return LoopFiles(self._settings.home)

    def logs(self, part: str | None, *, lines: int, follow: bool) -> AsyncIterator[LogEntry]:
        return read_logs(self._settings, part, lines=lines, follow=follow)

    async def run_worker(self) -> None:
        # Imported here: the worker loads workflows and activities, which few commands need.
        from perdure.adapters.logging.process_logs import log_process
        from perdure.worker import run_process, stop_on_signals

        stop = asyncio.Event()
        stop_on_signals(stop)
        settings = await self._found()
        level = settings.log_level
        log_process(settings, level="info" if level == "warning" else level)
        await run_process(settings, stop)

    async def run_codec(
        self, *, port: int | None, origins: Sequence[str], on_ready: OnProgress
    ) -> None:
        from perdure.adapters.temporal.codec_server import CodecServer

        # Its log has to show who decrypted what, so log at the level of the settings.
        level = self._settings.log_level
        json = {"json": True, "console": False}.get(self._settings.log_format)
        configure_logging(level="info" if level == "warning" else level, json=json)
        keys = encryption_keys(self._settings)
        if not keys:
            raise InvalidInput(
                "Nothing is encrypted here: PERDURE_ENCRYPTION_KEY is not set.",
                cure="Set the workers' key here, or use the Web UI without a codec server.",
            )
        server = CodecServer(
            keys,
            token=codec_token(self._settings),
            namespace=self._settings.namespace,
            origins=origins or await self._pages(),
            port=self._settings.codec_port if port is None else port,
        )
        await server.serve(on_ready)

    async def run_api(self, *, host: str | None, port: int | None, on_ready: OnProgress) -> None:
        from perdure.local_services.service_commands import has_api

        if not has_api():
            raise RuntimeUnavailable(
                "The REST API is not installed: fastapi or uvicorn is missing.",
                cure="Install it with `pip install 'perdure[api]'`.",
            )
        # These packages are an optional dependency, which no other command needs.
        from perdure.rest import run_api

        named = {"api_host": host, "api_port": port}
        given = {name: value for name, value in named.items() if value is not None}
        await run_api((await self._found()).model_copy(update=given), on_ready)

    async def _pages(self) -> list[str]:
        """The origins of the Web UI of these services, running or not."""
        state = await EmbeddedRuntime(self._settings).state()
        known = state.endpoints.ui_url if state is not None else None
        usual = [f"http://{host}:{self._settings.ui_port}" for host in ("127.0.0.1", "localhost")]
        return [known, *usual] if known is not None else usual

    async def _found(self) -> Settings:
        """The settings with the addresses of running services."""
        state = await EmbeddedRuntime(self._settings).state()
        return self._settings if state is None else self._settings.at(state.endpoints)

    async def replay(self, histories: dict[str, bytes]) -> AsyncIterator[Replayed]:
        # Imported here: a replay loads the workflows.
        from perdure.adapters.temporal.custom_codec import payload_codec
        from perdure.composition.parts import open_parts
        from perdure.operations import replay as operations_replay

        async with open_parts(self._settings) as parts:
            async for replayed in operations_replay.replay(
                histories,
                parts.stores.blobs,
                keys=encryption_keys(self._settings),
                plain=self._settings.encryption_plain == "read",
                codec=payload_codec(self._settings),
            ):
                yield replayed

    def doctor(self) -> AsyncIterator[Check]:
        from perdure.operations.doctor import diagnose

        return diagnose(self._settings, self.connect)

    async def collect(self, dry_run: bool) -> Collected:
        from perdure.composition.maintenance import collect_garbage
        from perdure.composition.parts import open_parts

        async with (
            self.connect(start=False, on_progress=lambda _: None) as found,
            open_parts(self._settings) as parts,
        ):
            return await collect_garbage(parts, found.gateway, dry_run=dry_run)

    async def move_blobs(self) -> MovedContent:
        from perdure.composition.parts import open_parts

        async with open_parts(self._settings) as parts:
            if parts.stores.objects is None:
                raise InvalidInput(
                    "There is no object store to which blobs could be moved.",
                    cure="Name it in PERDURE_BLOBS, for every process of the installation.",
                )
            blobs, size = await parts.stores.objects.move(now=utc_now())
            return MovedContent(blobs=blobs, bytes=size)

    async def kill_worker(self) -> Killed:
        """Send SIGKILL to the embedded worker, found by pid and start time, never to another."""
        state = await EmbeddedRuntime(self._settings).state()
        part = state.part("worker") if state is not None else None
        if part is None or part.process is None or not part.is_serving:
            raise NotFound("No embedded worker runs.", cure="Start it with `perdure up --detach`.")
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(part.process.pid, signal.SIGKILL)
        return Killed(name="worker", pid=part.process.pid)


async def _lay_out(source: Path, target: Path) -> None:
    from perdure.adapters.definitions.example_files import lay_out

    await lay_out(source, target)


def _file_formats() -> "Mapping[str, type[BaseModel]]":
    from perdure.schemas import FILE_FORMATS

    return FILE_FORMATS


async def _setup_model(on_progress: OnProgress) -> str:
    from perdure.operations.setup_model import setup_model

    return await setup_model(on_progress)


def _measure(data: bytes, media_type: "MediaType") -> "Measures":
    from perdure.adapters.files.measures import measured

    return measured(data, media_type)


def _rubric_problems(rubric: Rubric) -> Sequence[Problem]:
    from perdure.adapters.checks import check_problems

    return check_problems(rubric)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


class _Keys:
    """The encryption keys; they can be listed even if the settings lack one of them."""

    def __init__(self, settings: Settings, connect: Connect) -> None:
        self._settings, self._connect = settings, connect

    async def uses(self) -> "list[KeyUse]":
        from perdure.adapters.stores.open_stores import stores_of
        from perdure.operations import keys

        async with (
            self._connect(start=False, on_progress=lambda _: None) as found,
            stores_of(self._settings) as stores,
        ):
            return await keys.key_uses(stores, found.gateway)

    async def rewrap(self) -> Rewrapped:
        from perdure.adapters.stores.open_stores import stores_of
        from perdure.operations import keys

        async with stores_of(self._settings) as stores:
            return await keys.rewrap_all(stores)

    async def retire(self, key: str, lost: bool) -> "KeyUse":
        from perdure.adapters.stores.open_stores import stores_of
        from perdure.operations import keys

        async with (
            self._connect(start=False, on_progress=lambda _: None) as found,
            stores_of(self._settings) as stores,
        ):
            return await keys.retire(stores, found.gateway, key, now=utc_now(), lost=lost)
