"""Builds OpenTelemetry providers for OTLP over HTTP, and the plugins that feed them."""

from collections.abc import Callable
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import Meter, NoOpMeter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.util.re import parse_env_headers
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
from temporalio.plugin import SimplePlugin
from temporalio.runtime import OpenTelemetryConfig, Runtime, TelemetryConfig

from perdure.adapters.logging.process_logs import core_logging
from perdure.adapters.telemetry.spans import CleanSpans, trace_into
from perdure.adapters.telemetry.start import Signals, Telemetry
from perdure.adapters.telemetry.step_plugin import Meters, StepTelemetryPlugin

METER = "perdure"
UNNAMED_SERVICE = "unknown_service"


def start_otlp(signals: Signals, *, service: str) -> Telemetry:
    """Telemetry that goes where the environment says."""
    return start_with(
        spans=BatchSpanProcessor(OTLPSpanExporter()) if signals.traces else None,
        metrics=PeriodicExportingMetricReader(OTLPMetricExporter())
        if signals.metrics_url
        else None,
        runtime=temporal_runtime(signals, service=service),
        service=service,
    )


def start_with(
    *,
    spans: SpanProcessor | None = None,
    metrics: MetricReader | None = None,
    runtime: Runtime | None = None,
    service: str = METER,
) -> Telemetry:
    """Telemetry into the given ends; a tracer provider is set where there is none."""
    resource = resource_of(service)
    plugins: list[SimplePlugin] = []
    closers: list[Callable[[], None]] = []
    tracing = None if spans is None else trace_into(CleanSpans(spans), resource=resource)
    if tracing is not None:
        plugins.append(OpenTelemetryPlugin(add_temporal_spans=True))
        closers.append(tracing.shutdown)
    meter: Meter = NoOpMeter(METER)
    if metrics is not None:
        provider = MeterProvider([metrics], resource=resource)
        meter = provider.get_meter(METER)
        closers.append(provider.shutdown)
    # After Temporal's own plugin, so that its span is the current one when ours runs.
    plugins.append(StepTelemetryPlugin(Meters(meter)))
    return Telemetry(plugins=tuple(plugins), runtime=runtime, closers=tuple(closers))


def resource_of(service: str) -> Resource:
    """Who sends; `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win over our names."""
    found = Resource({SERVICE_VERSION: version("perdure")}).merge(Resource.create())
    named = not str(found.attributes.get(SERVICE_NAME)).startswith(UNNAMED_SERVICE)
    return found if named else found.merge(Resource({SERVICE_NAME: service}))


def temporal_runtime(signals: Signals, *, service: str) -> Runtime | None:
    """Temporal's core with its own exporter: its metrics, and the counters of workflow code."""
    if signals.metrics_url is None:
        return None
    return Runtime(
        telemetry=TelemetryConfig(
            metrics=OpenTelemetryConfig(
                url=signals.metrics_url,
                headers=dict(parse_env_headers(signals.metrics_headers, liberal=True)),
                durations_as_seconds=True,
                http=True,
            ),
            logging=core_logging(),
            global_tags={SERVICE_NAME: service},
            attach_service_name=False,
        )
    )
