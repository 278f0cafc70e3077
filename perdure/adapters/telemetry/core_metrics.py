"""Copies the metrics of Temporal's core, and of workflow code, to our meter provider.

The core can export by itself, but only to one place, so Prometheus and OTLP could not both get all
metrics. It writes to a buffer instead, which must be emptied often, or it drops updates.
"""

import threading
from collections.abc import Callable, Mapping
from typing import TypeAlias

from opentelemetry.metrics import Meter
from temporalio.runtime import (
    BUFFERED_METRIC_KIND_COUNTER,
    BUFFERED_METRIC_KIND_GAUGE,
    BufferedMetric,
    MetricBuffer,
    MetricBufferDurationFormat,
)

from perdure.adapters.telemetry.step_plugin import SECONDS_BUCKETS
from perdure.event_log import get_logger

BUFFER_SIZE = 100_000
EMPTIED_EVERY_S = 1.0
_Value: TypeAlias = int | float
_Note: TypeAlias = Callable[[_Value, Mapping[str, str | int | float | bool]], None]
_log = get_logger(__name__)


def new_buffer() -> MetricBuffer:
    """A buffer for the configuration of the runtime, with durations in seconds."""
    return MetricBuffer(BUFFER_SIZE, MetricBufferDurationFormat.SECONDS)


class CoreMetrics:
    """Copies the buffer to instruments of the same names, in a thread of its own."""

    def __init__(self, buffer: MetricBuffer, meter: Meter) -> None:
        self._buffer = buffer
        self._meter = meter
        self._notes: dict[str, _Note] = {}
        self._ended = threading.Event()
        self._emptying = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="perdure-core-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Copy what is left, and end the thread."""
        self._ended.set()
        self._thread.join()
        self.empty()

    def empty(self) -> None:
        """Copy what is in the buffer now."""
        with self._emptying:
            for update in self._buffer.retrieve_updates():
                note = self._notes.get(update.metric.name)
                if note is None:
                    note = self._notes[update.metric.name] = self._note_of(update.metric)
                note(update.value, update.attributes)

    def _run(self) -> None:
        while not self._ended.wait(EMPTIED_EVERY_S):
            self.empty()

    def _note_of(self, metric: BufferedMetric) -> _Note:
        try:
            return self._instrument(metric)
        # OpenTelemetry raises no narrower class, and one bad name must not end the thread.
        except Exception as error:
            _log.warning(
                "metric_off",
                metric=metric.name,
                found=str(error),
                cure="give it a name and a unit as OpenTelemetry allows them",
            )
            return _dropped

    def _instrument(self, metric: BufferedMetric) -> _Note:
        given = metric.name, metric.unit or "", metric.description or ""
        if metric.kind == BUFFERED_METRIC_KIND_COUNTER:
            return self._meter.create_counter(*given).add
        if metric.kind == BUFFERED_METRIC_KIND_GAUGE:
            return self._meter.create_gauge(*given).set
        # The SDK's own bounds are made for milliseconds.
        bounds = SECONDS_BUCKETS if metric.unit == "s" else None
        return self._meter.create_histogram(
            *given, explicit_bucket_boundaries_advisory=bounds
        ).record


def _dropped(_value: _Value, _labels: Mapping[str, str | int | float | bool]) -> None:
    """Leave out a metric that has no instrument."""
