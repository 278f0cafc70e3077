"""`doctor`: checks everything that a run needs, and gives a hint for each problem."""

import platform
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from importlib.metadata import version

from temporalio.service import RPCError

from perdure.adapters.llm.access import default_model_of, model_notes
from perdure.adapters.llm.embedded_facts import embedded_available
from perdure.adapters.sandbox.commands import Allowance, LocalCommands
from perdure.adapters.sandbox.identity import STRANGER, is_root
from perdure.adapters.settings.variables import Settings, search_path, unknown_variables
from perdure.domain.agent.spec import AgentSpec
from perdure.domain.foundation.errors import PerdureError, ServiceUnavailable
from perdure.domain.foundation.plain_text import said_in_words
from perdure.domain.model_availability import family_of
from perdure.interfaces.app_context import Connect
from perdure.interfaces.services import Check
from perdure.local_services.embedded_runtime import EmbeddedRuntime
from perdure.local_services.temporal_server import connect_named
from perdure.operations import doctor_encryption, doctor_notices, doctor_secrets
from perdure.operations.doctor_checks import (
    BLOBS,
    MODEL_RATES,
    SCHEDULES,
    STORES,
    TASK_QUEUE_CHECK,
    api,
    blobs,
    disk,
    failing_runs,
    model_rates,
    schedules,
    stores,
    task_queue,
    waiting_runs,
)
from perdure.operations.doctor_hosts import HOST, host
from perdure.operations.doctor_providers import providers
from perdure.operations.doctor_server import (
    CLOCKS,
    DEPLOYMENT,
    FAIRNESS,
    RETENTION,
    clocks,
    deployment,
    fairness,
    retention,
)
from perdure.operations.doctor_telemetry import TELEMETRY, telemetry

CHANGE_MODEL = "Set PERDURE_MODEL to the model that it names."
BROKEN_LOOK = "Report this with what `perdure doctor --json` says."
SERVER = "server"
UNREACHED = "not looked at: the server is not reached"
PACKAGES = ("temporalio", "anthropic", "pydantic", "sqlalchemy")


Look = Callable[[], Check | Awaitable[Check] | AsyncIterator[Check]]


async def diagnose(settings: Settings, connect: Connect) -> AsyncIterator[Check]:
    """Run all checks independently: a check that cannot run says so, and the others continue.

    No check starts or changes anything; what is written to test the store is undone.
    """
    for name, look in _of_this_host(settings):
        async for check in _alone(name, look):
            yield check
    away = unreached = False
    async for check in _alone(STORES, partial(stores, settings)):
        away = check.state == "failed"
        yield check
    for name, look in _of_services(settings):
        async for check in _alone(name, look):
            yield check
    async for check in _alone(SERVER, partial(_named_server, settings)):
        unreached = check.state == "failed"
        yield check
    for name, look in _of_runs(settings, connect):
        if away:
            yield Check(name=name, state="warning", found="not looked at: the store is away")
            continue
        async for check in _alone(name, look, unreached=unreached):
            yield check


def _of_this_host(settings: Settings) -> Iterator[tuple[str, Look]]:
    yield "python", _python
    yield "user", _user
    yield "versions", _versions
    yield "settings", _settings
    yield TELEMETRY, partial(telemetry, settings)
    yield "open runs", partial(_open_limits, settings)
    yield doctor_secrets.NAME, partial(doctor_secrets.references, settings)
    yield "disk", partial(disk, settings)
    yield "sandbox", partial(_sandbox, settings)


def _of_services(settings: Settings) -> Iterator[tuple[str, Look]]:
    yield "claude", partial(_model, settings)
    yield "providers", partial(providers, settings)
    yield "embedded model", _embedded
    yield "services", partial(_services, settings)


def _of_runs(settings: Settings, connect: Connect) -> Iterator[tuple[str, Look]]:
    """The checks that need the store, and most of them the server."""
    if settings.blobs is not None:
        yield BLOBS, partial(blobs, settings)
    yield "rest api", partial(api, settings)
    yield "search attributes", partial(_attributes, settings)
    yield "queues", partial(_queues, settings, connect)
    yield HOST, partial(host, settings, connect)
    yield FAIRNESS, partial(fairness, settings, connect)
    yield CLOCKS, partial(clocks, settings, connect)
    yield TASK_QUEUE_CHECK, partial(task_queue, settings, connect)
    yield MODEL_RATES, partial(model_rates, settings, connect)
    yield DEPLOYMENT, partial(deployment, settings, connect)
    yield SCHEDULES, partial(schedules, connect)
    yield RETENTION, partial(retention, settings, connect)
    yield "runs", partial(waiting_runs, connect)
    yield "failing runs", partial(failing_runs, connect)
    yield doctor_encryption.NAME, partial(doctor_encryption.encryption, settings, connect)
    yield doctor_notices.NAME, partial(doctor_notices.notices, settings)


async def _alone(name: str, look: Look, *, unreached: bool = False) -> AsyncIterator[Check]:
    """The results of one check; if it fails itself, a result that says so.

    Args:
        name: of the check.
        look: the check.
        unreached: the server is known not to be reached, which a failure then comes from.
    """
    try:
        found = look()
        if isinstance(found, Check):
            yield found
        elif isinstance(found, AsyncIterator):
            async for check in found:
                yield check
        else:
            yield await found
    except PerdureError as error:
        if unreached:
            yield Check(
                name=name, state="warning", found="not looked at: the server is not reached"
            )
            return
        found = f"not to be seen: {error.message}"
        yield Check(name=name, state="warning", found=found, cure=error.cure)
    except Exception as error:
        # A check that fails is a finding of its own, and must not hide the others.
        why = said_in_words(f"{type(error).__name__}: {error}", otherwise="it failed inside")
        yield Check(name=name, state="warning", found=f"not to be seen: {why}", cure=BROKEN_LOOK)


def _python() -> Check:
    # An older interpreter cannot even import this module, so only say which one runs.
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


async def _sandbox(settings: Settings) -> Check:
    """Whether programs of rubrics run in a sandbox."""
    obstacle = await LocalCommands(Allowance(search=search_path())).sandbox_obstacle()
    if not obstacle:
        return _granted(settings)
    plain = ", ".join(settings.plain_commands)
    without = f"only these programs run, without a sandbox: {plain}" if plain else "no program runs"
    linux = "Install bubblewrap, or name" if sys.platform == "linux" else "Name"
    return Check(
        name="sandbox",
        state="warning",
        found=f"{obstacle}; of those that rubrics and shell.full name, {without}",
        cure=f"{linux} programs that may run without one in PERDURE_PLAIN_COMMANDS.",
    )


def _granted(settings: Settings) -> Check:
    """What the sandbox grants beyond its usual."""
    unknown = set(settings.sandbox_network) - set(settings.allow_commands)
    if unknown:
        return Check(
            name="sandbox",
            state="warning",
            found="PERDURE_SANDBOX_NETWORK names what may not run: " + ", ".join(sorted(unknown)),
            cure="Name it in PERDURE_ALLOW_COMMANDS too, or remove it.",
        )
    granted = ", ".join(settings.sandbox_network)
    network = f"; these programs may use the network: {granted}" if granted else ""
    return Check(name="sandbox", state="ok", found=f"bubblewrap works{network}")


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


def _open_limits(settings: Settings) -> Check:
    limits = settings.open_limits
    if limits.is_unlimited:
        return Check(name="open runs", state="ok", found="not limited (PERDURE_MAX_OPEN_RUNS)")
    told = [
        f"at most {most} {of}"
        for most, of in ((limits.runs, "in all"), (limits.per_tenant, "of one tenant"))
        if most is not None
    ]
    above = "waits" if limits.above == "wait" else "is refused"
    found = f"{', '.join(told)}; a start above that {above}"
    return Check(name="open runs", state="ok", found=found)


def _model(settings: Settings) -> Check:
    ending = model_notes((default_model_of(settings),))
    if ending:
        return Check(name="claude", state="warning", found=ending[0], cure=CHANGE_MODEL)
    if settings.anthropic_api_key or settings.anthropic_auth_token:
        return Check(name="claude", state="ok", found="a key is set (not tried: that would cost)")
    default = default_model_of(settings)
    family = family_of(default)
    named = "the embedded one" if family == "local" else default
    found = f"no ANTHROPIC_API_KEY; the default model is {named}"
    if family not in {"local", "claude"}:
        return Check(name="claude", state="ok", found=found)
    cure = "Set ANTHROPIC_API_KEY to use Claude."
    return Check(name="claude", state="warning", found=found, cure=cure)


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
    if down and state.status in ("starting", "stopping"):
        return Check(
            name="services",
            state="warning",
            found=f"{state.status}: {parts}" if parts else state.status,
            cure="Look again in a moment; `perdure logs --follow` shows what happens.",
        )
    return Check(
        name="services",
        state="failed" if down else "ok",
        found=f"{parts}; {state.endpoints.ui_url or state.endpoints.temporal_address}",
        cure="Read `perdure logs`." if down else "",
    )


async def _named_server(settings: Settings) -> AsyncIterator[Check]:
    """Whether the server that the settings name takes this client; nothing without such a one."""
    address = settings.temporal.address
    if address is None:
        return
    try:
        client = await connect_named(settings)
    except PerdureError as error:
        yield Check(name=SERVER, state="failed", found=error.message, cure=error.cure)
        return
    yield Check(name=SERVER, state="ok", found=f"{address} answers, namespace {client.namespace}")


async def _attributes(settings: Settings) -> Check:
    """Whether the namespace has the search attributes; without them, every start is refused."""
    # Imported on demand, as the help of all commands loads this module.
    from perdure.domain.foundation.temporal_cloud import adding_commands
    from perdure.local_services.register_search_attributes import cure_of_types, standing

    name = "search attributes"
    state = await EmbeddedRuntime(settings).state()
    found = settings if state is None else settings.at(state.endpoints)
    if found.temporal.address is None:
        return Check(name=name, state="ok", found="no server runs yet; the embedded one gets them")
    try:
        client = await connect_named(found)
        has = await standing(client)
    except RPCError as error:
        return Check(name=name, state="warning", found=f"not to be seen: {error}")
    if has.wrong:
        told = "; ".join(has.wrong.values())
        return Check(
            name=name,
            state="failed",
            found=f"namespace {client.namespace}: {told}; no run can start, and open ones wait",
            cure=cure_of_types(client.namespace, has.wrong),
        )
    if has.missing:
        return Check(
            name=name,
            state="failed",
            found=f"namespace {client.namespace} lacks {', '.join(has.missing)}: no run can start",
            cure="Start a worker that may add them, or: "
            f"{adding_commands(client.namespace, has.missing)}",
        )
    return Check(name=name, state="ok", found=f"namespace {client.namespace} has them")


async def _queues(settings: Settings, connect: Connect) -> AsyncIterator[Check]:
    spec = AgentSpec.model_validate({"kind": "agent", "goal": "probe"})
    try:
        async with connect(start=False, on_progress=lambda _: None) as services:
            for queue in await services.gateway.readiness(spec):
                yield Check(
                    name=f"queue {queue.serves}",
                    state="ok" if queue.ready else "warning",
                    found=queue.found,
                    cure=queue.cure,
                )
                if queue.hooks:
                    served = (f"{name} ({kind})" for name, kind in queue.hooks.items())
                    yield Check(name="hooks", state="ok", found=", ".join(served))
    except ServiceUnavailable as error:
        if settings.temporal.address is not None:
            raise  # its own check has said so
        yield Check(name=SERVER, state="warning", found=error.message, cure=error.cure)
