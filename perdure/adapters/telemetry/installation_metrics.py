"""Metrics of the installation: for Prometheus at the API, and over OTLP."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader

from perdure.adapters.settings.variables import inherited_environment
from perdure.adapters.telemetry.exporters import metric_exporter
from perdure.adapters.telemetry.exposition import CONTENT_TYPE, Exposition
from perdure.adapters.telemetry.outlets import METER, resource_of
from perdure.adapters.telemetry.start import wanted
from perdure.domain.run.figures import Figures
from perdure.domain.run.metrics import INSTALLATION_METRICS, Metric

SERVICE = "perdure-api"
INTERVAL_VARIABLE, INTERVAL_MS = "OTEL_METRIC_EXPORT_INTERVAL", 60_000.0


class InstallationMetrics:
    """Instruments with the newest figures of an installation."""

    def __init__(
        self, look: Callable[[], Awaitable[Figures]], *, sent: MetricReader | None = None
    ) -> None:
        self._look = look
        self._figures: Figures = {}
        self._exposition = Exposition()
        self._sent = sent
        readers = [self._exposition.reader, *([] if sent is None else [sent])]
        self._provider = MeterProvider(
            readers, resource=resource_of(SERVICE), shutdown_on_exit=False
        )
        for metric in INSTALLATION_METRICS:
            self._observe(self._provider.get_meter(METER), metric)

    async def exposition(self) -> tuple[bytes, str]:
        """All current metrics as text, with the media type."""
        self._figures = await self._look()
        return await asyncio.to_thread(self._exposition.text), CONTENT_TYPE

    @asynccontextmanager
    async def sending(self) -> AsyncGenerator[None]:
        """Read and send figures over OTLP every `OTEL_METRIC_EXPORT_INTERVAL` ms, if set up."""
        task = None if self._sent is None else asyncio.create_task(self._send())
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await asyncio.to_thread(self._provider.shutdown)

    async def _send(self) -> None:
        while True:
            self._figures = await self._look()
            await asyncio.to_thread(self._provider.force_flush)
            await asyncio.sleep(_interval_ms() / 1000)

    def _observe(self, meter: Meter, metric: Metric) -> None:
        def observed(_: CallbackOptions) -> Iterable[Observation]:
            for values, number in self._figures.get(metric, {}).items():
                yield Observation(number, dict(zip(metric.labels, values, strict=True)))

        create = (
            meter.create_observable_counter
            if metric.kind == "counter"
            else meter.create_observable_gauge
        )
        create(metric.name, [observed], metric.unit, metric.description)


def installation_metrics(look: Callable[[], Awaitable[Figures]]) -> InstallationMetrics:
    """Metrics of the installation, with OTLP if the environment names an endpoint for metrics."""
    sent = wanted(inherited_environment()).metrics_url is not None
    if not sent or (exporter := metric_exporter()) is None:
        return InstallationMetrics(look)
    # Its own timer is off: it would send the figures of the last scrape. `sending` reads new ones.
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=math.inf)
    return InstallationMetrics(look, sent=reader)


def _interval_ms() -> float:
    try:
        return max(1.0, float(inherited_environment().get(INTERVAL_VARIABLE, INTERVAL_MS)))
    except ValueError:
        return INTERVAL_MS
