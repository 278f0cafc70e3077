"""Starts telemetry where the environment asks for it, and is nothing at all where it does not."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog
from temporalio.plugin import SimplePlugin
from temporalio.runtime import Runtime

from perdure.adapters.settings import inherited_environment
from perdure.adapters.telemetry.variables import SPOKEN_PROTOCOL, wanted

CLOSE_S = 5.0
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What to hand to `Client.connect(plugins=…, runtime=…)`; workers inherit both.

    Empty without an endpoint: no plugin, no runtime (Temporal's default is used), nothing to close.
    """

    plugins: tuple[SimplePlugin, ...] = ()
    runtime: Runtime | None = None
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


def start_telemetry(
    *, service: str = "perdure", environment: Mapping[str, str] | None = None
) -> Telemetry:
    """Send traces and metrics by OTLP over HTTP where `OTEL_EXPORTER_OTLP_*` name an endpoint.

    A wrong setting is logged and never ends a run.

    Args:
        service: the `service.name`, unless `OTEL_SERVICE_NAME` says another.
        environment: where to look for endpoints; None means this process's environment, which
            the exporters read in any case.
    """
    signals = wanted(inherited_environment() if environment is None else environment)
    if signals.unspoken is not None:
        _log.warning(
            "telemetry_off", protocol=signals.unspoken, cure=f"set the protocol {SPOKEN_PROTOCOL}"
        )
    if not signals.any:
        return Telemetry()
    # Loaded on demand: the exporters take longer to import than the rest of a client.
    from perdure.adapters.telemetry.otlp import start_otlp

    return start_otlp(signals, service=service)
