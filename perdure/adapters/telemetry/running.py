"""The telemetry of a process: what clients and workers are handed, shared by all who start it."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from temporalio.plugin import SimplePlugin
from temporalio.runtime import Runtime

CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What to hand to `Client.connect(plugins=…, runtime=…)`; workers inherit both.

    `metrics_url` is where Prometheus reads. Empty without an endpoint: no plugin, no runtime
    (Temporal's default is used), nothing to close.
    """

    plugins: tuple[SimplePlugin, ...] = ()
    runtime: Runtime | None = None
    metrics_url: str | None = None
    closers: Sequence[Callable[[], None]] = ()

    def close(self, *, within_s: float = CLOSE_S) -> None:
        """Send what is left and end; bounded, since a collector may be away.

        Entry points that leave with `os._exit` must call it, exit handlers do not run there.
        """
        threads = [threading.Thread(target=closer, daemon=True) for closer in self.closers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(within_s / len(threads))


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
