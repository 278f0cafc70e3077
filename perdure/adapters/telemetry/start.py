"""Starts telemetry if the environment asks for it, once for each process."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from perdure.adapters.settings.variables import inherited_environment
from perdure.adapters.telemetry.process_telemetry import METRICS, TRACES, Signals, Telemetry
from perdure.event_log import get_logger

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
SPOKEN_PROTOCOL = "http/protobuf"


def wanted(environment: Mapping[str, str]) -> Signals:
    """Read the variables for endpoint, exporter and protocol; specific ones override general."""
    traces, metrics = _url(environment, TRACES), _url(environment, METRICS)
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or not (
        traces or metrics
    ):
        return Signals()
    for signal, url in ((TRACES, traces), (METRICS, metrics)):
        protocol = _specific(environment, PROTOCOL, signal) or SPOKEN_PROTOCOL
        if url and protocol != SPOKEN_PROTOCOL:
            return Signals(unspoken=protocol)
    return Signals(traces=traces is not None, metrics_url=metrics)


def traces_url(environment: Mapping[str, str]) -> str | None:
    """The URL for traces; None if they are not sent."""
    return _url(environment, TRACES)


def _url(environment: Mapping[str, str], signal: str) -> str | None:
    # An empty variable counts as unset: compose files pass on those that nobody has set.
    exporters = environment.get(f"OTEL_{signal}_EXPORTER", "").strip() or "otlp"
    if "otlp" not in (name.strip() for name in exporters.split(",")):
        return None
    specific = environment.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "").strip()
    general = environment.get(ENDPOINT, "").strip()
    return specific or (general and f"{general.rstrip('/')}/v1/{signal.lower()}") or None


def _specific(environment: Mapping[str, str], name: str, signal: str) -> str:
    own = name.replace("_OTLP_", f"_OTLP_{signal}_")
    return (environment.get(own, "") or environment.get(name, "")).strip()


class Shared:
    """Shares one telemetry between users; it is made for the first and closed after the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: Telemetry | None = None
        self._users = 0

    def enter(self, make: Callable[[], Telemetry]) -> Telemetry:
        """The telemetry of the process; its `close` removes one user."""
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
            # Without the lock: closing waits for a collector, which may be away.
            if last and whole is not None:
                whole.close()

        return leave


_log = get_logger(__name__)
_shared = Shared()


def start_telemetry(
    *,
    service: str = "perdure",
    environment: Mapping[str, str] | None = None,
    metrics_address: str | None = None,
) -> Telemetry:
    """Send traces and metrics with OTLP over HTTP if `OTEL_EXPORTER_OTLP_*` name an endpoint.

    A wrong setting is only logged, and never ends a run. A process has one telemetry: a second
    start shares it, and the last `close` ends it.

    Args:
        service: the `service.name`, unless `OTEL_SERVICE_NAME` has another.
        environment: the variables with the endpoints; None means those of this process, which the
            exporters read in any case.
        metrics_address: the `HOST:PORT` at which metrics are served to Prometheus.
    """
    signals = wanted(inherited_environment() if environment is None else environment)
    if signals.unspoken is not None:
        _log.warning(
            "telemetry_off", protocol=signals.unspoken, cure=f"set the protocol {SPOKEN_PROTOCOL}"
        )
    if not signals.traces and signals.metrics_url is None and metrics_address is None:
        return Telemetry()
    # Imported on demand: the exporters take longer to import than the rest of a client.
    from perdure.adapters.telemetry.outlets import start_outlets

    try:
        return _shared.enter(
            lambda: start_outlets(signals, service=service, metrics_address=metrics_address)
        )
    except ValueError as error:  # OpenTelemetry only logs most wrong values, and raises for some
        _log.warning(
            "telemetry_off",
            found=str(error),
            cure="correct the variable of OpenTelemetry (OTEL_…) that this is about",
        )
        return Telemetry()
