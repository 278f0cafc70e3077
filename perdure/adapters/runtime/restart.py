"""Services that were started with other settings: apply the new ones, or say that they wait."""

from collections.abc import Callable

from perdure.adapters.runtime.digest import brought, changed, digests, gone
from perdure.adapters.runtime.state import HomeFiles, RuntimeState
from perdure.adapters.runtime.temporal_server import (
    RUNNING,
    RUNNING_OURS,
    connect,
    connect_named,
    count_open,
)
from perdure.adapters.settings import Settings
from perdure.domain.errors import RuntimeUnavailable

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
