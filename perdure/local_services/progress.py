"""Whether a process that starts gets anywhere: a slow machine is no reason to end it."""

import time
from collections.abc import Callable
from pathlib import Path

import psutil

from perdure.local_services.processes import ENDED

CPU_STEP_S = 0.5  # less than this in a whole wait is a process that only waits, too
READ_STEP_BYTES = 1024 * 1024
LOOK_EVERY_S = 1.0


class Progress:
    """Watches one process by its processor time, what it read, and its log.

    Args:
        pid: the process.
        log: the file that it writes to.
        patience_s: how long it may do nothing.
        at_most_s: the longest a start may take, whatever it does.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        pid: int,
        log: Path,
        *,
        patience_s: float,
        at_most_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pid = pid
        self._log = log
        self._patience = patience_s
        self._clock = clock
        self._began = self._moved = self._looked = clock()
        self._end = self._began + at_most_s
        self._marks = self._look()

    def stalled(self) -> str:
        """Why there is no point in waiting on, or nothing."""
        now = self._clock()
        if now - self._looked >= LOOK_EVERY_S:
            self._looked = now
            marks = self._look()
            if marks != self._marks:
                self._marks, self._moved = marks, now
        if now >= self._end:
            return f"not ready after {now - self._began:.0f} s"
        if now - self._moved >= self._patience:
            return f"not ready after {now - self._began:.0f} s, and idle for {self._patience:.0f} s"
        return ""

    def _look(self) -> tuple[int, int, int]:
        try:
            process = psutil.Process(self._pid)
            family = [process, *process.children(recursive=True)]
            cpu = sum(sum(one.cpu_times()[:2]) for one in family)
            read = process.io_counters().read_bytes
        except (*ENDED, AttributeError):
            cpu, read = 0.0, 0
        return int(cpu / CPU_STEP_S), read // READ_STEP_BYTES, _size(self._log)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
