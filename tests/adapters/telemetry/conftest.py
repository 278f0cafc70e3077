"""A tracer provider that can be set anew, and exporters in memory."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from uuid import uuid4

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from perdure.adapters.telemetry.outlets import start_with
from perdure.adapters.temporal.activity_context import StepLoggingPlugin
from tests.adapters.telemetry.tiny import ACTIVITIES, QUEUE, TinyTraced


@pytest.fixture
def address(server: WorkflowEnvironment) -> str:
    """Where the dev server of this test session answers."""
    return server.client.service_client.config.target_host


@pytest.fixture
def no_provider() -> Iterator[None]:
    """A process in which nobody has set a tracer provider."""
    before = trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE
    trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE = None, Once()
    yield
    trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE = before


@dataclass(frozen=True, slots=True)
class Seen:
    """What was exported."""

    spans: InMemorySpanExporter
    metrics: InMemoryMetricReader

    def span(self, name: str, number: int = 0) -> ReadableSpan:
        return [span for span in self.spans.get_finished_spans() if span.name == name][number]

    def names(self) -> list[str]:
        return sorted(span.name for span in self.spans.get_finished_spans())

    def points(self, metric: str) -> dict[tuple[str, ...], float]:
        """Sums (counts of histograms) by the values of their labels, in order of label names."""
        data = self.metrics.get_metrics_data()
        found: dict[tuple[str, ...], float] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for item in scope.metrics:
                    for point in item.data.data_points if item.name == metric else ():
                        labels = sorted((point.attributes or {}).items())
                        value = point.value if isinstance(point, NumberDataPoint) else point.count
                        found[tuple(str(label) for _, label in labels)] = value
        return found


RunTiny = Callable[[str], Awaitable[tuple[str, Seen]]]


@pytest.fixture
def run_tiny(address: str, no_provider: None) -> RunTiny:
    """Runs the tiny loop on a worker that replays each task; gives run id and what was seen."""

    async def run(model: str) -> tuple[str, Seen]:
        seen = Seen(InMemorySpanExporter(), InMemoryMetricReader())
        telemetry = start_with(spans=SimpleSpanProcessor(seen.spans), metrics=[seen.metrics])
        client = await Client.connect(
            address,
            data_converter=pydantic_data_converter,
            plugins=[*telemetry.plugins, StepLoggingPlugin()],
        )
        queue, run_id = f"{QUEUE}-{uuid4().hex}", f"tiny-{uuid4().hex}"
        async with Worker(
            client,
            task_queue=queue,
            workflows=[TinyTraced],
            activities=ACTIVITIES,
            max_cached_workflows=0,
        ):
            await client.execute_workflow(
                TinyTraced.run, args=[model, 1], id=run_id, task_queue=queue
            )
        return run_id, seen

    return run
