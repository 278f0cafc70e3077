"""The supervisor's side of its watcher, which restarts it when it dies."""

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path

from perdure.event_log import get_logger
from perdure.local_services.processes import ProcessRef, process_ref

SCRIPT = Path(__file__).with_name("watcher.py")
AGAIN_S = 5.0
GOES_WITHIN_S = 5.0
IN_ORDER = b"ends in order"
_log = get_logger(__name__)


class WatcherLink:
    """Keeps a watcher process running, which restarts this process if it dies.

    `deaths` counts the earlier supervisors that died.
    """

    def __init__(self, home: Path, *, deaths: int, on_change: Callable[[], None]) -> None:
        self.process: ProcessRef | None = None
        self._home = home
        self._on_change = on_change
        self._deaths = deaths
        self._running: Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start a watcher, and a new one whenever it is gone."""
        self._keeper = asyncio.create_task(self._keep(), name="keep watcher")

    async def dismiss(self) -> None:
        """End the watcher, because this process now ends in order."""
        if self._keeper is None:
            return
        # The keeper first: it would replace the watcher that is told to go.
        self._keeper.cancel()
        await asyncio.wait({self._keeper})
        if self._running is not None and self._running.returncode is None:
            await _tell(self._running)
        self._running = self.process = None

    async def _keep(self) -> None:
        while True:
            try:
                self._running = await self._spawned()
            except OSError as error:
                _log.warning("watcher_not_started", error=error.strerror)
            else:
                self.process = process_ref(self._running.pid)
                # Into the state file at once, where `down` finds whom else to end.
                self._on_change()
                await self._running.wait()
                _log.warning("watcher_gone", process=self._running.pid)
            await asyncio.sleep(AGAIN_S)

    async def _spawned(self) -> Process:
        # In a session of its own, so that signals to the supervisor's group do not reach it.
        return await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(SCRIPT),
            str(self._home), str(os.getpid()), str(self._deaths),
            stdin=PIPE, start_new_session=True,
        )  # fmt: skip


async def _tell(watcher: Process) -> None:
    assert watcher.stdin is not None  # asked for
    with contextlib.suppress(OSError):
        watcher.stdin.write(IN_ORDER)
        watcher.stdin.close()
        await watcher.stdin.wait_closed()
    try:
        await asyncio.wait_for(watcher.wait(), GOES_WITHIN_S)
    except TimeoutError:
        watcher.kill()
        await watcher.wait()
