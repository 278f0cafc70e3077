"""Starts telemetry where the environment asks for it, once for each process."""

from collections.abc import Mapping

import structlog

from perdure.adapters.settings.variables import inherited_environment
from perdure.adapters.telemetry.running import Shared, Telemetry
from perdure.adapters.telemetry.signals import SPOKEN_PROTOCOL, wanted

_log = structlog.get_logger(__name__)
_shared = Shared()


def start_telemetry(
    *,
    service: str = "perdure",
    environment: Mapping[str, str] | None = None,
    metrics_address: str | None = None,
) -> Telemetry:
    """Send traces and metrics by OTLP over HTTP where `OTEL_EXPORTER_OTLP_*` name an endpoint.

    A wrong setting is logged and never ends a run. A process has one telemetry: a second start
    joins it, and the last `close` ends it.

    Args:
        service: the `service.name`, unless `OTEL_SERVICE_NAME` says another.
        environment: where to look for endpoints; None means this process's environment, which
            the exporters read in any case.
        metrics_address: `HOST:PORT` where Prometheus reads the metrics of this process.
    """
    signals = wanted(inherited_environment() if environment is None else environment)
    if signals.unspoken is not None:
        _log.warning(
            "telemetry_off", protocol=signals.unspoken, cure=f"set the protocol {SPOKEN_PROTOCOL}"
        )
    if not signals.any and metrics_address is None:
        return Telemetry()
    # Loaded on demand: the exporters take longer to import than the rest of a client.
    from perdure.adapters.telemetry.outlets import start_outlets

    return _shared.enter(
        lambda: start_outlets(signals, service=service, metrics_address=metrics_address)
    )
