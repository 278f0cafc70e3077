"""A real delegation tree is one trace, over child runs and continue-as-new, at an OTLP receiver."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from delegating import completes, delegates, delegation, script, works
from installation import Installation, installation
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from temporalio.testing import WorkflowEnvironment

from perdure.domain.run.spec import Timing
from tests.adapters.telemetry.collector import Collector, collector

pytestmark = pytest.mark.long
SCRIPT = script(delegates("steel"), works("steel"), delegates("glass"), works("glass"), completes())


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch, no_provider: None) -> Iterator[Collector]:
    """An OTLP receiver to which this process sends its traces."""
    with collector() as kept:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{kept.url}/v1/traces")
        yield kept


def spans(receiver: Collector) -> list[Span]:
    return [
        span
        for message in receiver.traces
        for item in message.resource_spans
        for scope in item.scope_spans
        for span in scope.spans
    ]


def texts(span: Span) -> dict[str, str]:
    return {one.key: one.value.string_value for one in span.attributes}


async def traced_tree(home: Path, address: str, **settings: object) -> tuple[str, int]:
    """Run the tree to its end; gives its id and how often its root continued as new."""
    timing = Timing(roll_events=40)
    async with installation(home, address, timing=timing, **settings) as site, site.worker():
        result = await site.run(delegation(), SCRIPT)
        assert result.outcome == "accepted", result.explanation
        return result.id, await rolls(site, result.id)


async def rolls(site: Installation, run: str) -> int:
    query = f"WorkflowId = '{run}' AND ExecutionStatus = 'ContinuedAsNew'"
    return (await site.client.count_workflows(query)).count


async def test_a_tree_is_one_trace(
    server: WorkflowEnvironment, tmp_path: Path, receiver: Collector
) -> None:
    address = server.client.service_client.config.target_host
    run, rolled = await traced_tree(tmp_path / "home", address)
    found = spans(receiver)
    steps = [span for span in found if span.name.startswith("RunActivity:")]
    runs = {texts(span)["gen_ai.conversation.id"] for span in steps} - {""}
    children = {one for one in runs if one.startswith(f"{run}.")}
    assert len(children) >= 2, runs
    assert rolled >= 1
    of_tree = [span for span in steps if texts(span)["gen_ai.conversation.id"] in {run, *children}]
    assert len({span.trace_id for span in of_tree}) == 1
    known = {span.span_id: span for span in found}
    (trace_id,) = {span.trace_id for span in of_tree}
    roots = [s for s in found if s.trace_id == trace_id and s.parent_span_id not in known]
    assert [span.name for span in roots] == ["StartWorkflow:DelegationLoop"]
    assert not any(name.startswith("gen_ai.input") for s in found for name in texts(s))


async def test_the_words_are_in_the_spans_where_wanted(
    server: WorkflowEnvironment, tmp_path: Path, receiver: Collector
) -> None:
    address = server.client.service_client.config.target_host
    await traced_tree(tmp_path / "home", address, trace_content="on")
    calls = [texts(s) for s in spans(receiver) if "gen_ai.output.messages" in texts(s)]
    assert len(calls) >= 5
    said = [json.loads(call["gen_ai.output.messages"])[0] for call in calls]
    assert {message["role"] for message in said} == {"assistant"}
    assert "A bottle of steel." in json.dumps(said)
    assert all(json.loads(call["gen_ai.input.messages"]) for call in calls)
