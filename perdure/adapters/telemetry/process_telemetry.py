"""The telemetry of a process: its signals, and what its clients and workers are given."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from temporalio.plugin import SimplePlugin
from temporalio.runtime import Runtime

TRACES, METRICS = "TRACES", "METRICS"
CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Signals:
    """Which signals leave the process; `unspoken` names a protocol that we do not speak."""

    traces: bool = False
    metrics_url: str | None = None
    unspoken: str | None = None


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
