"""Loads plugins in a process of their own, before services end or start for them.

A worker would tell a plugin that does not load only after half a minute, with all services gone.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from perdure.adapters.plugin_modules import GROUPS, installed_plugins
from perdure.adapters.settings.layers import REPAIR_IT, require_plugin_files
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.local_services.logs import last_words, log_end
from perdure.local_services.processes import POLL_S, end, process_ref
from perdure.local_services.service import Progress, exit_words, spawn
from perdure.local_services.state import HomeFiles

COMMAND = (sys.executable, "-P", "-m", "perdure.local_services.load_plugins")
LOG = "plugins"
IDLE_WITHIN_S = 30.0  # as long as a worker may be idle while it starts
AT_MOST_S = 600.0
QUIET_S = 3.0
READ_WITHIN_S = 1.0


class Word(FrozenModel):
    """What `load_plugins` says on a line of its own: what it loads next, or how it ended."""

    loading: str = "of the settings"
    loaded: bool = False
    message: str = ""
    cure: str = ""


async def require_plugins(
    settings: Settings, files: HomeFiles, on_progress: Callable[[str], None] = lambda _: None
) -> None:
    """Require that the plugins of these settings load.

    With a worker command of one's own only their files are looked at: it may be another Python.

    Raises:
        InvalidInput: one is missing, does not load, ends its process, or waits for something.
    """
    require_plugin_files(settings.plugins)
    some = settings.plugins or any(installed_plugins(group=group) for group in GROUPS)
    if some and settings.worker_command is None:
        await _load_aside(settings, files, on_progress)


async def _load_aside(
    settings: Settings, files: HomeFiles, on_progress: Callable[[str], None]
) -> None:
    environment = settings.for_services() | {"PERDURE_HOME": str(settings.home)}
    log = files.log(LOG)
    said_from = log_end(log)
    child = await spawn(COMMAND, environment, log, answers=True)
    # For a process that ends before its first word.
    words = [Word()]
    reading = asyncio.create_task(_read(child.stdout, words))
    ended = asyncio.create_task(child.wait())
    try:
        stalled = await _wait_for_end(child.pid, log, ended, on_progress)
    finally:
        if reference := process_ref(child.pid):
            await end(reference, grace_s=0)
        # A process that the plugin left behind may hold the stream open.
        await asyncio.wait({reading}, timeout=READ_WITHIN_S)
        reading.cancel()
    last = words[-1]
    if last.message:
        raise InvalidInput(last.message, cure=last.cure)
    if not last.loaded:
        why = stalled or f"it ended its process with {exit_words(await ended)}"
        said = last_words(log, since=said_from)
        raise InvalidInput(
            f"The plugin {last.loading} cannot be loaded: {why}." + (f"\n{said}\n" if said else ""),
            cure=REPAIR_IT,
        )


async def _wait_for_end(
    pid: int, log: Path, ended: asyncio.Task[int], on_progress: Callable[[str], None]
) -> str:
    """Wait for the end of the process; why not to wait any longer, if it does not come."""
    progress = Progress(pid, log, patience_s=IDLE_WITHIN_S, at_most_s=AT_MOST_S)
    await asyncio.wait({ended}, timeout=QUIET_S)
    if not ended.done():
        on_progress("loading the plugins")
    while not ended.done():
        if why := progress.stalled():
            return why
        await asyncio.wait({ended}, timeout=POLL_S)
    return ""


async def _read(stream: asyncio.StreamReader | None, words: list[Word]) -> None:
    while stream is not None and (line := await stream.readline()):
        words.append(Word.model_validate_json(line))
