"""One telemetry for a process, however often its parts are opened: the last user closes it."""

import threading
from collections.abc import Callable
from dataclasses import replace

from perdure.adapters.telemetry.handles import Telemetry


class Shared:
    """Counts the users of one telemetry; made at the first need, and again after the last left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: Telemetry | None = None
        self._users = 0

    def enter(self, make: Callable[[], Telemetry]) -> Telemetry:
        """The process's telemetry, whose `close` takes one user away."""
        with self._lock:
            if self._current is None:
                self._current = make()
            self._users += 1
            return replace(self._current, closers=(self._leaver(),))

    def _leaver(self) -> Callable[[], None]:
        present = True

        def leave() -> None:
            nonlocal present
            with self._lock:
                self._users -= 1 if present else 0
                last = present and self._users == 0
                present = False
                whole = self._current
                if last:
                    self._current = None
            if last and whole is not None:
                whole.close()

        return leave
