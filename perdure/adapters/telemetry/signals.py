"""Which signals leave the process, as the `OTEL_*` variables say."""

from collections.abc import Mapping
from dataclasses import dataclass

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
TRACES, METRICS = "TRACES", "METRICS"
SPOKEN_PROTOCOL = "http/protobuf"


@dataclass(frozen=True, slots=True)
class Signals:
    """Which signals leave the process; `unspoken` names a protocol that we do not speak."""

    traces: bool = False
    metrics_url: str | None = None
    unspoken: str | None = None

    @property
    def any(self) -> bool:
        return self.traces or self.metrics_url is not None


def wanted(environment: Mapping[str, str]) -> Signals:
    """Read endpoint, exporter and protocol variables, the specific ones before the general."""
    traces, metrics = _url(environment, TRACES), _url(environment, METRICS)
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or not (
        traces or metrics
    ):
        return Signals()
    for signal, url in ((TRACES, traces), (METRICS, metrics)):
        protocol = _specific(environment, PROTOCOL, signal) or SPOKEN_PROTOCOL
        if url and protocol != SPOKEN_PROTOCOL:
            return Signals(unspoken=protocol)
    return Signals(
        traces=traces is not None,
        metrics_url=metrics,
    )


def traces_url(environment: Mapping[str, str]) -> str | None:
    """Where traces go; None where they are not sent."""
    return _url(environment, TRACES)


def _url(environment: Mapping[str, str], signal: str) -> str | None:
    if environment.get(f"OTEL_{signal}_EXPORTER", "otlp").strip() != "otlp":
        return None
    specific = environment.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "").strip()
    general = environment.get(ENDPOINT, "").strip()
    return specific or (general and f"{general.rstrip('/')}/v1/{signal.lower()}") or None


def _specific(environment: Mapping[str, str], name: str, signal: str) -> str:
    own = name.replace("_OTLP_", f"_OTLP_{signal}_")
    return (environment.get(own, "") or environment.get(name, "")).strip()
