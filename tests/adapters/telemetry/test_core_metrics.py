"""Metrics of Temporal's core and of workflows, as they get from its buffer to our instruments."""

import structlog
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from temporalio.runtime import Runtime, TelemetryConfig

from perdure.adapters.telemetry.core_metrics import CoreMetrics, new_buffer


def test_a_metric_that_opentelemetry_refuses_takes_no_other_with_it() -> None:
    buffer, reader = new_buffer(), InMemoryMetricReader()
    meter = Runtime(telemetry=TelemetryConfig(metrics=buffer)).metric_meter
    with structlog.testing.capture_logs() as logs:
        core = CoreMetrics(buffer, MeterProvider([reader]).get_meter("core"))
        for _ in range(2):
            # A workflow of the host names its metrics as it likes.
            meter.create_counter("orders per hour").add(1)
            meter.create_counter("orders").add(1)
            core.empty()
        core.close()
    data = reader.get_metrics_data()
    assert data is not None
    names = [
        metric.name
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    ]
    assert names == ["orders"]
    assert [(line["event"], line["metric"]) for line in logs] == [("metric_off", "orders per hour")]
