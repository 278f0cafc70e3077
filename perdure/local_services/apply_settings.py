"""Applies new settings to running services by a restart, or reports that the settings wait."""

import hashlib
import hmac
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress

from perdure.about import VERSION
from perdure.adapters.settings.variables import PREFIX, Settings
from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.domain.foundation.names import OPEN_EXECUTION
from perdure.domain.foundation.progress import Standing
from perdure.local_services.plugin_code import CODE_OF, code_digests
from perdure.local_services.processes import usable
from perdure.local_services.state import HomeFiles, RuntimeState
from perdure.local_services.temporal_server import OPEN_OURS, connect, connect_named, count_open

OnProgress = Callable[[str], None]
# The prefixes of variables that change what a worker does.
STEERING = (PREFIX, "ANTHROPIC_", "AZURE_OPENAI_", "OPENAI_", "TEMPORAL_")
FILED = "perdure.yaml: "  # the prefix of settings of the home's file
# Variables that may differ between shells without asking for other services.
IGNORED = frozenset(
    f"{PREFIX}{name}" for name in ("HOME", "LOG_FORMAT", "READY_FILE", "MODEL", "MODEL_URL")
)
# Services in the foreground never end as idle, so another value changes nothing for them.
ONLY_DETACHED = frozenset({f"{PREFIX}IDLE_MINUTES", f"{FILED}idle_minutes"})


def digests(files: HomeFiles, settings: Settings) -> dict[str, str]:
    """The digests by name of all that makes a worker: variables, settings, plugins and program.

    Digests, because values may be secret and are written into the state file.
    """
    # "x": of two processes that start at once, the second takes the salt that the first one wrote.
    with usable(files.salt):
        with suppress(FileExistsError), files.salt.open("xb") as file:
            file.write(secrets.token_bytes(16))
        salt = files.salt.read_bytes()
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

    # Salted, or whoever reads the state file could try likely values of a short secret.
    def digest(value: bytes) -> str:
        return hmac.new(salt, value, hashlib.sha256).hexdigest()[:16]

    # Who upgrades, or comes from another virtual environment, would run the old code otherwise.
    program = {"the version of Perdure": VERSION, "the Python environment": sys.prefix}
    every = named | of_home | program
    values = {name: digest(value.encode()) for name, value in sorted(every.items())}
    return values | code_digests(settings.plugins, digest)


def changed(before: dict[str, str], now: dict[str, str]) -> tuple[str, ...]:
    """The names whose values changed, appeared or disappeared."""
    return tuple(sorted(gone(before, now) | set(brought(before, now))))


def brought(before: dict[str, str], now: dict[str, str]) -> tuple[str, ...]:
    """The names whose values changed or appeared, that is, what the calling shell sets.

    A setting that disappeared from the home's file counts too, since all shells share that file.
    """
    named = {name for name, value in now.items() if before.get(name) != value}
    left = {name for name in gone(before, now) if name.startswith(FILED)}
    return tuple(sorted(named | left))


def gone(before: dict[str, str], now: dict[str, str]) -> frozenset[str]:
    """The names that had a value and have none now."""
    return frozenset(before.keys() - now.keys())


async def must_restart(
    state: RuntimeState,
    files: HomeFiles,
    settings: Settings,
    on_progress: OnProgress,
    *,
    exactly: bool,
) -> bool:
    """Whether running services should be restarted for the caller's settings.

    They should if no run is open. Otherwise the caller is told which settings wait.

    Args:
        state: of the running services.
        files: of their home folder.
        settings: of the caller.
        on_progress: is told what happens.
        exactly: settings that the caller does not have also end with the restart. Otherwise the
            services keep them, as commands in other shells expect.

    Raises:
        RuntimeUnavailable: the services belong to another Temporal server and are in use.
    """
    compare = changed if exactly else brought
    wanted = digests(files, settings)
    different = compare(state.settings, wanted)
    if not state.detached:
        different = tuple(name for name in different if name not in ONLY_DETACHED)
    if state.status != "ready" or not different:
        return False
    # Services in a terminal belong to who watches them there; a restart would end that command.
    if state.detached and await _count(state, settings) == 0:
        left = sorted(gone(state.settings, wanted))
        lost = ", ".join(name for name in left if not name.startswith(CODE_OF))
        told = "restarting the services with the new settings"
        on_progress(f"{told}, without {lost}" if lost else told)
        return True
    names = ", ".join(different)
    if settings.temporal.address not in (None, state.endpoints.temporal_address):
        raise RuntimeUnavailable(
            f"The services in {files.home} belong to {state.endpoints.temporal_address} and are in "
            f"use; this command names {settings.temporal.address}.",
            cure="Run `perdure down` first, or set another PERDURE_HOME.",
        )
    on_progress(
        Standing(f"the running services keep their settings; `perdure down` applies {names}")
    )
    return False


async def _count(state: RuntimeState, settings: Settings) -> int | None:
    """The number of open runs; None if the server cannot tell, which counts as busy."""
    if settings.temporal.address == state.endpoints.temporal_address:
        client = await connect_named(settings)
    else:
        client = await connect(state.endpoints.temporal_address, state.endpoints.namespace)
    # An embedded server ends with the services, and so holds up workflows of others as well.
    query = OPEN_EXECUTION if state.part("temporal") else OPEN_OURS
    return None if client is None else await count_open(client, query)
