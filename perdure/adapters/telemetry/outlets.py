"""Builds OpenTelemetry providers for OTLP and Prometheus, and the plugins that feed them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version

from opentelemetry.metrics import Meter, NoOpMeter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
from temporalio.plugin import SimplePlugin
from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig

from perdure.adapters.logging.process_logs import core_logging
from perdure.adapters.telemetry.core_metrics import CoreMetrics, new_buffer
from perdure.adapters.telemetry.exporters import metric_exporter, span_exporter
from perdure.adapters.telemetry.exposition import Exposition
from perdure.adapters.telemetry.process_telemetry import Signals, Telemetry
from perdure.adapters.telemetry.spans import CleanSpans, trace_into
from perdure.adapters.telemetry.step_plugin import Meters, StepTelemetryPlugin

METER = "perdure"
# OpenTelemetry's own name for a service that nobody named begins with this.
UNNAMED_SERVICE = "unknown_service"


def start_outlets(
    signals: Signals, *, service: str, metrics_address: str | None = None
) -> Telemetry:
    """Telemetry for the endpoints of the environment, and metrics served at an address.

    Raises:
        ValueError: OpenTelemetry cannot use one of its variables.
    """
    readers: list[MetricReader] = []
    closers: list[Callable[[], None]] = []
    url: str | None = None
    if signals.metrics_url is not None and (metrics := metric_exporter()) is not None:
        readers.append(PeriodicExportingMetricReader(metrics))
    if metrics_address is not None:
        exposition = Exposition()
        if (served := exposition.serve(metrics_address)) is not None:
            readers.append(exposition.reader)
            url, end = served
            closers.append(end)
    traces = span_exporter() if signals.traces else None
    try:
        telemetry = start_with(
            spans=None if traces is None else BatchSpanProcessor(traces),
            metrics=readers,
            core=new_buffer() if readers else None,
            closers=closers,
            service=service,
        )
    except ValueError:
        _end_unused(readers, closers)
        raise
    return replace(telemetry, metrics_url=url)


def _end_unused(readers: Sequence[MetricReader], closers: Sequence[Callable[[], None]]) -> None:
    """End what was opened for telemetry that could not be started."""
    for end in closers:
        end()
    for reader in readers:
        if isinstance(reader, PeriodicExportingMetricReader):
            reader.shutdown()


def start_with(
    *,
    spans: SpanProcessor | None = None,
    metrics: Sequence[MetricReader] = (),
    core: MetricBuffer | None = None,
    closers: Sequence[Callable[[], None]] = (),
    service: str = METER,
) -> Telemetry:
    """Telemetry with the given outputs; a tracer provider is set if there is none.

    Args:
        spans: the processor that gets spans.
        metrics: the readers of metrics.
        core: the buffer with the metrics of Temporal's core and of workflow code.
        closers: further functions to call at the end.
        service: the service name, unless the environment has one.
    """
    resource = resource_of(service)
    plugins: list[SimplePlugin] = []
    ends = list(closers)
    tracing = None if spans is None else trace_into(CleanSpans(spans), resource=resource)
    if tracing is not None:
        plugins.append(OpenTelemetryPlugin(add_temporal_spans=True))
        ends.append(tracing.shutdown)
    meter: Meter = NoOpMeter(METER)
    runtime = None if core is None else temporal_runtime(core)
    if metrics:
        provider = MeterProvider(metrics, resource=resource)
        meter = provider.get_meter(METER)
        ends.append(_metrics_end(provider, core, meter))
    # After Temporal's own plugin, so that its span is the current one when ours runs.
    plugins.append(StepTelemetryPlugin(Meters(meter)))
    return Telemetry(plugins=tuple(plugins), runtime=runtime, closers=tuple(ends))


def _metrics_end(
    provider: MeterProvider, core: MetricBuffer | None, meter: Meter
) -> Callable[[], None]:
    """Start to copy the core's buffer; returns a function that copies the rest and sends it."""
    emptied = None if core is None else CoreMetrics(core, meter)

    def end() -> None:
        if emptied is not None:
            emptied.close()
        provider.shutdown()

    return end


def resource_of(service: str) -> Resource:
    """The resource; `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` override our names."""
    # In a merge the second one wins: the variables do.
    found = Resource({SERVICE_VERSION: version("perdure")}).merge(Resource.create())
    named = not str(found.attributes.get(SERVICE_NAME)).startswith(UNNAMED_SERVICE)
    return found if named else found.merge(Resource({SERVICE_NAME: service}))


def temporal_runtime(buffer: MetricBuffer) -> Runtime:
    """A runtime of Temporal's core that writes its metrics, and those of workflows, to a buffer."""
    return Runtime(
        # The resource names the service; as a label, each series would carry it once more.
        telemetry=TelemetryConfig(metrics=buffer, logging=core_logging(), attach_service_name=False)
    )
