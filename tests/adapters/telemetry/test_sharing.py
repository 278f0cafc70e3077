"""One telemetry for a process: opened twice it is one, and may be opened again after its end."""

from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.contrib.opentelemetry import create_tracer_provider

from perdure.adapters.telemetry import Telemetry
from perdure.adapters.telemetry.outlets import start_with
from perdure.adapters.telemetry.start import Shared


def test_the_last_user_closes_and_the_next_makes_anew() -> None:
    shared, made, closed = Shared(), [], []

    def make() -> Telemetry:
        made.append(len(made))
        return Telemetry(closers=(lambda: closed.append(len(made)),))

    first, second = shared.enter(make), shared.enter(make)
    first.close()
    first.close()
    assert (made, closed) == ([0], [])
    second.close()
    assert (made, closed) == ([0], [1])
    shared.enter(make).close()
    assert (made, closed) == ([0, 1], [1, 2])


def span(name: str) -> None:
    with trace.get_tracer("test").start_as_current_span(name):
        pass


def names(exporter: InMemorySpanExporter) -> list[str]:
    return [item.name for item in exporter.get_finished_spans()]


def test_spans_go_to_the_newest_start_and_nowhere_after_the_end(no_provider: None) -> None:
    first, second = InMemorySpanExporter(), InMemorySpanExporter()
    telemetry = start_with(spans=SimpleSpanProcessor(first))
    span("one")
    telemetry.close()
    span("between")
    telemetry = start_with(spans=SimpleSpanProcessor(second))
    span("two")
    telemetry.close()
    assert (names(first), names(second)) == (["one"], ["two"])


def test_a_replay_safe_provider_of_others_is_joined(no_provider: None) -> None:
    theirs, ours = InMemorySpanExporter(), InMemorySpanExporter()
    provider = create_tracer_provider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(theirs))
    trace.set_tracer_provider(provider)
    telemetry = start_with(spans=SimpleSpanProcessor(ours))
    span("one")
    telemetry.close()
    span("two")
    assert (names(theirs), names(ours)) == (["one", "two"], ["one"])
