"""Temporal's OpenTelemetry plugin beside Perdure's, in a worker of somebody else's."""

import uuid

import pytest
from installation import Installation
from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin, create_tracer_provider
from temporalio.plugin import SimplePlugin
from temporalio.worker import Replayer, Worker

from perdure.temporal import PerdurePlugin, activity_tool
from tests.embedding.test_plugin_clients import STOCKED, stock
from tests.embedding.test_temporal_plugin import Asking, Order, OrderWorkflow, charge


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What their tracer provider was told; the global one of this process meanwhile."""
    exporter = InMemorySpanExporter()
    provider = create_tracer_provider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


@pytest.mark.parametrize("ours", ["last", "first"])
async def test_their_spans_stay_one_trace_and_histories_replay(
    ours: str, bare: Installation, spans: InMemorySpanExporter
) -> None:
    model = await bare.script({"replies": [{"text": "Hi."}]})
    plugins: list[SimplePlugin] = [
        OpenTelemetryPlugin(add_temporal_spans=True),
        PerdurePlugin(bare.settings),
    ]
    if ours == "first":
        plugins.reverse()
    client = await Client.connect(bare.address, plugins=plugins)
    queue = f"orders-{uuid.uuid4().hex[:8]}"
    order = Order(item="a bottle", model=model, task={})
    async with Worker(client, task_queue=queue, workflows=[OrderWorkflow], activities=[charge]):
        told = await client.execute_workflow(
            OrderWorkflow.run, order, id=f"o-{queue}", task_queue=queue
        )
    assert told == "charged for a bottle: Hi."
    found = spans.get_finished_spans()
    names = {span.name for span in found}
    assert {"RunWorkflow:OrderWorkflow", "RunActivity:charge", "RunActivity:open_task"} <= names
    assert len({span.context.trace_id for span in found if span.context}) == 1
    # Their provider is not asked about our steps, which tell nobody unless Perdure is told to.
    assert not any("call_model" in name for name in names)
    history = await client.get_workflow_handle(f"o-{queue}").fetch_history()
    await Replayer(workflows=[OrderWorkflow], plugins=plugins).replay_workflow(history)


async def test_an_activity_that_is_a_tool_belongs_to_their_trace(
    bare: Installation, spans: InMemorySpanExporter
) -> None:
    model = await bare.script({"replies": [STOCKED, {"text": "3 are left."}]})
    client = await Client.connect(
        bare.address,
        plugins=[
            OpenTelemetryPlugin(add_temporal_spans=True),
            PerdurePlugin(bare.settings, tools=[activity_tool(stock)]),
        ],
    )
    queue = f"orders-{uuid.uuid4().hex[:8]}"
    task = {"models": {"executor": model}, "tools": {"access": "full", "allow": ["stock"]}}
    order = Order(item="a bottle", model="", task=task)
    with trace.get_tracer(__name__).start_as_current_span("their request") as request:
        async with Worker(client, task_queue=queue, workflows=[Asking], activities=[stock]):
            await client.execute_workflow(Asking.run, order, id=f"o-{queue}", task_queue=queue)
    (told,) = [one for one in spans.get_finished_spans() if one.name == "RunActivity:stock"]
    assert told.context is not None
    assert told.context.trace_id == request.get_span_context().trace_id
