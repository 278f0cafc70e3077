"""The tracer provider of this process: set once, while what its spans go to may change."""

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from temporalio.contrib.opentelemetry import ReplaySafeTracerProvider, create_tracer_provider

from perdure.adapters.settings.variables import inherited_environment
from perdure.adapters.telemetry.sampling import sampler_of

_log = structlog.get_logger(__name__)


class SpanSlot(SpanProcessor):
    """Stands in the provider for good, since a processor cannot be taken out of one."""

    target: SpanProcessor | None = None
    provider: ReplaySafeTracerProvider | None = None

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Pass on."""
        if self.target is not None:
            self.target.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """Pass on."""
        if self.target is not None:
            self.target.on_end(span)

    def shutdown(self) -> None:
        """Send what is left; later spans go nowhere."""
        target, self.target = self.target, None
        if target is not None:
            target.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Pass on."""
        return self.target is None or self.target.force_flush(timeout_millis)


_slot = SpanSlot()


def trace_into(spans: SpanProcessor, *, resource: Resource) -> SpanProcessor | None:
    """Send this process's spans to `spans`; returns what to shut down at the end.

    None when the process has a provider that Temporal does not take: it accepts only its own
    replay-safe kind, and a provider can be set but once.
    """
    present = trace.get_tracer_provider()
    if isinstance(present, trace.ProxyTracerProvider):
        _slot.provider = create_tracer_provider(
            sampler=sampler_of(inherited_environment()), resource=resource, shutdown_on_exit=False
        )
        _slot.provider.add_span_processor(_slot)
        trace.set_tracer_provider(_slot.provider)
    elif present is not _slot.provider:
        return _into_theirs(present, spans)
    _slot.target = spans
    return _slot


def _into_theirs(present: trace.TracerProvider, spans: SpanProcessor) -> SpanProcessor | None:
    if isinstance(present, ReplaySafeTracerProvider):
        present.add_span_processor(spans)
        return spans
    _log.warning(
        "tracing_off",
        provider=type(present).__name__,
        cure="set one made by temporalio.contrib.opentelemetry.create_tracer_provider",
    )
    return None
