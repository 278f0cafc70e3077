"""Services that were started with other settings: apply the new ones, or say that they wait."""

import hashlib
import hmac
import secrets
from collections.abc import Callable

from perdure.adapters.settings.variables import PREFIX, Settings
from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.local_services.state import HomeFiles, RuntimeState
from perdure.local_services.temporal_server import (
    RUNNING,
    RUNNING_OURS,
    connect,
    connect_named,
    count_open,
)

STEERING = (PREFIX, "ANTHROPIC_", "AZURE_OPENAI_", "OPENAI_", "TEMPORAL_")


FILED = "perdure.yaml: "  # a setting of the home's file


# What differs from shell to shell without meaning other services.
IGNORED = frozenset(
    f"{PREFIX}{name}"
    for name in ("HOME", "LOG_FORMAT", "READY_FILE", "MODEL", "MODEL_URL", "IDLE_MINUTES")
)


def digests(files: HomeFiles, settings: Settings) -> dict[str, str]:
    """Name to digest of every variable that a worker of these settings would see."""
    salt = _salt(files)
    environment = settings.for_services()
    references = [server.key_reference or "" for server in settings.providers.values()]
    keys = {one.removeprefix("env:") for one in references if one.startswith("env:")}
    named = {
        name: value
        for name, value in environment.items()
        if (name.startswith(STEERING) and name not in IGNORED) or name in keys
    }
    of_home = {
        f"{FILED}{name}": str(getattr(settings.layers.home, "values", {}).get(name))
        for name in settings.layers.of_home
    }
    return {
        name: hmac.new(salt, value.encode(), hashlib.sha256).hexdigest()[:16]
        for name, value in sorted((named | of_home).items())
    }


def changed(before: dict[str, str], now: dict[str, str]) -> tuple[str, ...]:
    """Names whose values differ, appeared or went away."""
    return tuple(sorted(gone(before, now) | set(brought(before, now))))


def brought(before: dict[str, str], now: dict[str, str]) -> tuple[str, ...]:
    """Names whose values differ or appeared: what a shell that names them wants to be so.

    The home's file is the same for every shell: what has gone from it counts too.
    """
    named = {name for name, value in now.items() if before.get(name) != value}
    left = {name for name in gone(before, now) if name.startswith(FILED)}
    return tuple(sorted(named | left))


def gone(before: dict[str, str], now: dict[str, str]) -> frozenset[str]:
    """Names that had a value and have none now."""
    return frozenset(before.keys() - now.keys())


def _salt(files: HomeFiles) -> bytes:
    try:
        with files.salt.open("xb") as file:
            file.write(secrets.token_bytes(16))
    except FileExistsError:
        pass
    return files.salt.read_bytes()


OnProgress = Callable[[str], None]


async def must_restart(
    state: RuntimeState,
    files: HomeFiles,
    settings: Settings,
    on_progress: OnProgress,
    *,
    exactly: bool,
) -> bool:
    """Whether running services should be restarted for the caller's settings.

    They are when nothing would be disturbed. Otherwise the caller is told which settings wait.

    Args:
        exactly: What the caller does not set counts as well, and ends with the restart; else the
            services keep what they were started with, as a command in another shell expects.

    Raises:
        RuntimeUnavailable: the services belong to another Temporal server and are in use.
    """
    compare = changed if exactly else brought
    wanted = digests(files, settings)
    different = compare(state.settings, wanted)
    if state.status != "ready" or not different:
        return False
    if state.detached and await _count(state, settings) == 0:
        on_progress(_restarting(gone(state.settings, wanted)))
        return True
    names = ", ".join(different)
    if _server_of(settings) not in (None, state.endpoints.temporal_address):
        raise RuntimeUnavailable(
            f"The services in {files.home} belong to {state.endpoints.temporal_address} and are in "
            f"use; this command names {settings.temporal.address}.",
            cure="Run `perdure down` first, or set another PERDURE_HOME.",
        )
    on_progress(f"the running services keep their settings; `perdure down` applies {names}")
    return False


def _restarting(lost: frozenset[str]) -> str:
    told = "restarting the services with the new settings"
    return f"{told}, without {', '.join(sorted(lost))}" if lost else told


def _server_of(settings: Settings) -> str | None:
    return settings.temporal.address


async def _count(state: RuntimeState, settings: Settings) -> int | None:
    """Open runs; None when the server cannot tell, which counts as busy."""
    if _server_of(settings) == state.endpoints.temporal_address:
        client = await connect_named(settings.temporal)
    else:
        client = await connect(state.endpoints.temporal_address, state.endpoints.namespace)
    query = RUNNING if state.part("temporal") else RUNNING_OURS
    return None if client is None else await count_open(client, query)
