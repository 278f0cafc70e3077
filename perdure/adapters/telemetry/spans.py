"""The tracer provider of this process: samples spans, and redacts them before they are sent.

Health checks and polls of open pages come several times a second. If each had a trace, they would
hide the traces of runs.
"""

from collections.abc import Mapping, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.sampling import (
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import Link, SpanKind, Status, TraceState
from opentelemetry.util.types import Attributes, AttributeValue
from temporalio.contrib.opentelemetry import ReplaySafeTracerProvider, create_tracer_provider

from perdure.adapters.logging.redacting import without_secrets
from perdure.adapters.settings.variables import inherited_environment
from perdure.domain.foundation.names import READY_ACTIVITY
from perdure.event_log import get_logger


class CleanSpans(SpanProcessor):
    """Passes spans to another processor; finished spans without secrets."""

    def __init__(self, target: SpanProcessor) -> None:
        self._target = target

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Pass the span on; secrets are removed when it ends."""
        self._target.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """Pass on a clean copy."""
        # A copy, since the processors of others get the same span.
        self._target.on_end(cleaned(span))

    def shutdown(self) -> None:
        self._target.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._target.force_flush(timeout_millis)


def cleaned(span: ReadableSpan) -> ReadableSpan:
    """A copy of a finished span, with secrets removed from its texts."""
    description = span.status.description
    return ReadableSpan(
        name=without_secrets(span.name),
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=_attributes(span.attributes),
        events=[
            Event(without_secrets(event.name), _attributes(event.attributes), event.timestamp)
            for event in span.events
        ],
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code, description and without_secrets(description)),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _attributes(found: Mapping[str, AttributeValue] | None) -> dict[str, AttributeValue]:
    return {name: _value(value) for name, value in (found or {}).items()}


def _value(value: AttributeValue) -> AttributeValue:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, list | tuple) and value and isinstance(value[0], str):
        return tuple(without_secrets(item) for item in value)
    return value


LOOKS = ("QueryWorkflow:", "HandleQuery:")
PROBES = frozenset({f"StartActivity:{READY_ACTIVITY}", f"RunActivity:{READY_ACTIVITY}"})


class WorkSampler(Sampler):
    """Drops spans of polls and probes; another sampler decides about the others."""

    def __init__(self, otherwise: Sampler) -> None:
        self._otherwise = otherwise

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        if name.startswith(LOOKS) or name in PROBES:
            return SamplingResult(Decision.DROP)
        return self._otherwise.should_sample(
            parent_context, trace_id, name, kind, attributes, links, trace_state
        )

    def get_description(self) -> str:
        """The name of the sampler, for the SDK."""
        return f"WorkSampler({self._otherwise.get_description()})"


def sampler_of(environment: dict[str, str]) -> WorkSampler:
    """The sampler that `OTEL_TRACES_SAMPLER` names, without polls and probes."""
    named = environment.get("OTEL_TRACES_SAMPLER", "").strip() or "parentbased_always_on"
    base = named.removeprefix("parentbased_")
    share = {"always_on": 1.0, "always_off": 0.0}.get(base, _share(environment))
    root = TraceIdRatioBased(share)
    return WorkSampler(ParentBased(root) if named != base else root)


def _share(environment: dict[str, str]) -> float:
    try:
        return min(max(float(environment.get("OTEL_TRACES_SAMPLER_ARG", "1")), 0.0), 1.0)
    except ValueError:
        return 1.0


_log = get_logger(__name__)


class SpanSlot(SpanProcessor):
    """A permanent processor with an exchangeable target: providers cannot remove processors."""

    target: SpanProcessor | None = None
    provider: ReplaySafeTracerProvider | None = None

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if self.target is not None:
            self.target.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        if self.target is not None:
            self.target.on_end(span)

    def shutdown(self) -> None:
        """Send what is left; later spans are dropped."""
        target, self.target = self.target, None
        if target is not None:
            target.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self.target is None or self.target.force_flush(timeout_millis)


_slot = SpanSlot()


def trace_into(spans: SpanProcessor, *, resource: Resource) -> SpanProcessor | None:
    """Send the spans of this process to `spans`; returns the processor to shut down at the end.

    Returns None if the process has a provider that Temporal does not accept: it must be Temporal's
    own replay-safe kind, and OpenTelemetry lets a process set its provider only once.
    """
    present = trace.get_tracer_provider()
    if isinstance(present, trace.ProxyTracerProvider):
        _slot.provider = create_tracer_provider(
            sampler=sampler_of(inherited_environment()), resource=resource, shutdown_on_exit=False
        )
        _slot.provider.add_span_processor(_slot)
        trace.set_tracer_provider(_slot.provider)
    elif present is not _slot.provider:
        if isinstance(present, ReplaySafeTracerProvider):
            present.add_span_processor(spans)
            return spans
        _log.warning(
            "tracing_off",
            provider=type(present).__name__,
            cure="set one made by temporalio.contrib.opentelemetry.create_tracer_provider",
        )
        return None
    _slot.target = spans
    return _slot
