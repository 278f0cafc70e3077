"""The telemetry of a process: its signals, and the plugins of its clients and workers."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from temporalio.plugin import SimplePlugin
from temporalio.runtime import Runtime

TRACES, METRICS = "TRACES", "METRICS"
CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Signals:
    """Which signals are sent; `unspoken` names a requested protocol that is not supported."""

    traces: bool = False
    metrics_url: str | None = None
    unspoken: str | None = None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Arguments for `Client.connect(plugins=…, runtime=…)`; workers inherit both.

    `metrics_url` is the URL for Prometheus. Without an endpoint there are no plugins, Temporal's
    default runtime is used, and there is nothing to close.
    """

    plugins: tuple[SimplePlugin, ...] = ()
    runtime: Runtime | None = None
    metrics_url: str | None = None
    closers: Sequence[Callable[[], None]] = ()

    def close(self, *, within_s: float = CLOSE_S) -> None:
        """Send what is left and end, with a time limit, since a collector may be away.

        Entry points that leave with `os._exit` must call it, because that skips exit handlers.
        """
        # All at once, since each may use up the time; daemons, so that none can keep the process.
        threads = [threading.Thread(target=closer, daemon=True) for closer in self.closers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(within_s / len(threads))
