"""Starts telemetry where the environment asks for it, and is nothing at all where it does not."""

from collections.abc import Mapping

import structlog

from perdure.adapters.settings.variables import inherited_environment
from perdure.adapters.telemetry.handles import Telemetry
from perdure.adapters.telemetry.otel_env import SPOKEN_PROTOCOL, wanted
from perdure.adapters.telemetry.sharing import Shared

_log = structlog.get_logger(__name__)
_shared = Shared()


def start_telemetry(
    *, service: str = "perdure", environment: Mapping[str, str] | None = None
) -> Telemetry:
    """Send traces and metrics by OTLP over HTTP where `OTEL_EXPORTER_OTLP_*` name an endpoint.

    A wrong setting is logged and never ends a run. A process has one telemetry: a second start
    joins it, and the last `close` ends it.

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

    return _shared.enter(lambda: start_otlp(signals, service=service))
