"""OTLP exporters, set up by `OTEL_EXPORTER_OTLP_*`, whose headers may be secret references."""

from collections.abc import Callable
from typing import TypeVar

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.util.re import parse_env_headers

from perdure.adapters.settings.library_secrets import HEADERS, followed, hide_references
from perdure.adapters.telemetry.process_telemetry import METRICS, TRACES
from perdure.domain.foundation.errors import InvalidInput
from perdure.event_log import get_logger

Exporter = TypeVar("Exporter")

_log = get_logger(__name__)


def span_exporter() -> OTLPSpanExporter | None:
    """The exporter of traces; None, with a log line, if a reference in its headers fails."""
    return _made(TRACES, lambda headers: OTLPSpanExporter(headers=headers))


def metric_exporter() -> OTLPMetricExporter | None:
    """The exporter of metrics; None as for traces."""
    return _made(METRICS, lambda headers: OTLPMetricExporter(headers=headers))


def _made(signal: str, make: Callable[[dict[str, str]], Exporter]) -> Exporter | None:
    own, general = HEADERS[signal]
    try:
        secrets = followed((own, general))
    except InvalidInput as error:
        _log.warning("telemetry_off", signal=signal, found=error.message, cure=error.cure)
        return None
    # Liberal, as the exporters read these variables themselves.
    headers = dict(parse_env_headers(secrets.get(own) or secrets.get(general, ""), liberal=True))
    # Hide the variables: the exporter reads them too, and would send the reference as a header.
    with hide_references((own, general)):
        return make(headers)
