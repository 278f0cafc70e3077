"""`doctor`: looks at everything a run needs, one check after the other, each with its cure."""

import platform
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from importlib.metadata import version

from temporalio.service import RPCError

from perdure.adapters.keys import encryption_keys
from perdure.adapters.models.catalog import access_from, default_model, model_notes
from perdure.adapters.models.embedded_facts import embedded_available
from perdure.adapters.runtime import EmbeddedRuntime
from perdure.adapters.runtime.search_attributes import missing_attributes
from perdure.adapters.runtime.services import has_api
from perdure.adapters.runtime.temporal_server import connect_named
from perdure.adapters.sandbox.identity import STRANGER, is_root
from perdure.adapters.settings import Settings, unknown_variables
from perdure.adapters.stores import open_stores
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.opening import DATABASE_FILE
from perdure.domain.errors import PerdureError
from perdure.domain.namespace import attributes_command
from perdure.domain.run import AgentSpec
from perdure.interfaces.gateway.facts import RunFilter
from perdure.interfaces.services import Check, Connect

CHANGE_MODEL = "Set PERDURE_MODEL to the model that it names."
LOW_DISK_BYTES = 1024**3
RUNS_LOOKED_AT = 20
WEEK = timedelta(days=7)
PACKAGES = ("temporalio", "anthropic", "pydantic", "sqlalchemy")


async def diagnose(settings: Settings, connect: Connect) -> AsyncIterator[Check]:
    """All checks; none of them starts or changes anything."""
    yield _python()
    yield _user()
    yield _versions()
    yield _settings()
    yield _disk(settings)
    yield await _stores(settings)
    yield _model(settings)
    yield _embedded()
    yield await _api(settings)
    yield await _services(settings)
    yield await _attributes(settings)
    async for check in _queues(connect):
        yield check
    async for check in _lying_work(connect):
        yield check
    async for check in _failing_runs(connect):
        yield check


def _python() -> Check:
    # An older interpreter cannot even import this: what is of use is which one runs.
    found = f"{platform.python_version()} at {sys.executable}"
    return Check(name="python", state="ok", found=found)


def _user() -> Check:
    if not is_root():
        return Check(name="user", state="ok", found="not root")
    return Check(
        name="user",
        state="warning",
        found=f"root: programs in the sandbox get the user {STRANGER} instead, but the services, "
        "plugins, MCP servers and programs without a sandbox are root",
        cure="Run the services as an ordinary user.",
    )


def _versions() -> Check:
    found = ", ".join(f"{name} {version(name)}" for name in ("perdure", *PACKAGES))
    return Check(name="versions", state="ok", found=found)


def _settings() -> Check:
    unknown = unknown_variables()
    if unknown:
        return Check(
            name="settings",
            state="warning",
            found=f"unknown variables: {', '.join(unknown)}",
            cure="Check their spelling; they have no effect.",
        )
    return Check(name="settings", state="ok", found="all variables are known")


def _disk(settings: Settings) -> Check:
    place = next(folder for folder in (settings.home, *settings.home.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    found = f"{free / 1024**3:.1f} GiB free at {place}"
    if free < LOW_DISK_BYTES:
        cure = "Make room, or run `perdure gc`."
        return Check(name="disk", state="warning", found=found, cure=cure)
    return Check(name="disk", state="ok", found=found)


async def _stores(settings: Settings) -> Check:
    if settings.database_url is None and not (settings.home / DATABASE_FILE).exists():
        return Check(name="stores", state="ok", found=f"none yet in {settings.home}")
    try:
        stores = await open_stores(
            settings.home, settings.database_url, encryption_keys=encryption_keys(settings)
        )
        runs = await stores.records.find_runs(limit=1)
        await stores.close()
    except PerdureError as error:
        return Check(name="stores", state="failed", found=error.message, cure=error.cure)
    kind = "PostgreSQL" if "postgres" in settings.store_url else "SQLite"
    told = f"newest run {runs[0].id}" if runs else "no runs yet"
    return Check(name="stores", state="ok", found=f"{kind}, {told}")


def _model(settings: Settings) -> Check:
    ending = model_notes((default_model(access_from(settings)),))
    if ending:
        return Check(name="claude", state="warning", found=ending[0], cure=CHANGE_MODEL)
    if settings.anthropic_api_key or settings.anthropic_auth_token:
        return Check(name="claude", state="ok", found="a key is set (not tried: that would cost)")
    return Check(
        name="claude",
        state="warning",
        found="no ANTHROPIC_API_KEY; the default model is the embedded one",
        cure="Set ANTHROPIC_API_KEY to use Claude.",
    )


def _embedded() -> Check:
    available = embedded_available()
    if not available.ok:
        cure = "Run `perdure setup`."
        return Check(name="embedded model", state="warning", found=available.reason, cure=cure)
    return Check(
        name="embedded model",
        state="ok",
        found="installed; it writes text and JSON, chooses no tools, and never judges",
    )


async def _api(settings: Settings) -> Check:
    if not has_api():
        return Check(
            name="rest api",
            state="warning",
            found="not installed",
            cure="Install `perdure[api]` to start and follow runs over HTTP.",
        )
    if settings.api == "off":
        return Check(name="rest api", state="ok", found="installed, switched off (PERDURE_API)")
    if settings.database_url is None and not (settings.home / DATABASE_FILE).exists():
        return _without_token("installed")
    try:
        stores = await open_stores(settings.home, settings.database_url)
        tokens = await stores.access.tokens()
        await stores.close()
    except PerdureError as error:
        return Check(name="rest api", state="failed", found=error.message, cure=error.cure)
    now = utc_now()
    usable = sum(token.usable(now) for token in tokens)
    if not usable:
        return _without_token("installed")
    soon = [token.id for token in tokens if token.usable(now) and not token.usable(now + WEEK)]
    if soon:
        return Check(
            name="rest api",
            state="warning",
            found=f"installed, {usable} usable tokens; within a week expires {', '.join(soon[:5])}",
            cure=f"Renew it: perdure api token rotate {soon[0]}",
        )
    return Check(name="rest api", state="ok", found=f"installed, {usable} usable tokens")


def _without_token(installed: str) -> Check:
    return Check(
        name="rest api",
        state="ok",
        found=f"{installed}, no token yet, so nobody is let in",
        cure="Make one: perdure api token create NAME --scope operate",
    )


async def _services(settings: Settings) -> Check:
    state = await EmbeddedRuntime(settings).state()
    if state is None:
        return Check(
            name="services",
            state="warning",
            found="no embedded services run",
            cure="`perdure up --detach` starts them; `perdure run` does so by itself.",
        )
    parts = ", ".join(f"{part.name} {part.status}" for part in state.parts)
    down = not state.is_serving
    return Check(
        name="services",
        state="failed" if down else "ok",
        found=f"{parts}; {state.endpoints.ui_url or state.endpoints.temporal_address}",
        cure="Read `perdure logs`." if down else "",
    )


async def _attributes(settings: Settings) -> Check:
    """What the namespace lacks: every start would be refused."""
    name = "search attributes"
    state = await EmbeddedRuntime(settings).state()
    found = settings if state is None else settings.at(state.endpoints)
    if found.temporal.address is None:
        return Check(name=name, state="ok", found="no server runs yet; the embedded one gets them")
    try:
        client = await connect_named(found.temporal)
        missing = await missing_attributes(client)
    except (PerdureError, RPCError) as error:
        return Check(name=name, state="warning", found=f"not to be seen: {error}")
    if missing:
        return Check(
            name=name,
            state="failed",
            found=f"namespace {client.namespace} lacks {', '.join(missing)}: no run can start",
            cure=f"Start a worker that may add them, or: {attributes_command(client.namespace)}",
        )
    return Check(name=name, state="ok", found=f"namespace {client.namespace} has them")


async def _queues(connect: Connect) -> AsyncIterator[Check]:
    spec = AgentSpec.model_validate({"kind": "agent", "goal": "probe"})
    with suppress(StopAsyncIteration):
        try:
            async with connect(start=False, on_progress=lambda _: None) as services:
                for queue in await services.gateway.readiness(spec):
                    yield Check(
                        name=f"queue {queue.serves}",
                        state="ok" if queue.ready else "warning",
                        found=queue.found,
                        cure=queue.cure,
                    )
        except PerdureError as error:
            yield Check(name="server", state="warning", found=error.message, cure=error.cure)


async def _failing_runs(connect: Connect) -> AsyncIterator[Check]:
    """Open runs whose code keeps failing in the worker: nobody else would say so."""
    with suppress(PerdureError):  # an absent server was told already
        async with connect(start=False, on_progress=lambda _: None) as services:
            for run, trouble in await services.gateway.failing(limit=RUNS_LOOKED_AT):
                found, _, cure = trouble.partition(" Read ")
                yield Check(name=f"run {run}", state="failed", found=found, cure=f"Read {cure}")


async def _lying_work(connect: Connect) -> AsyncIterator[Check]:
    """Open runs whose work no worker takes, such as those of a folder on another host."""
    with suppress(PerdureError):  # an absent server was told already
        async with connect(start=False, on_progress=lambda _: None) as services:
            page = await services.gateway.list(RunFilter(status="running", limit=RUNS_LOOKED_AT))
            for row in page.runs:
                dispatch = (await services.gateway.status(row.id)).dispatch
                found, _, cure = dispatch.rpartition(" Start one with ")
                if cure:
                    cure = f"Start one with {cure}"
                    yield Check(name=f"run {row.id}", state="warning", found=found, cure=cure)
