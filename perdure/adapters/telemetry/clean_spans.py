"""Spans without secrets: what an exception said goes to a collector only after it was redacted."""

from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.sdk.trace import Event, ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import Status
from opentelemetry.util.types import AttributeValue

from perdure.adapters.logging.redacting import told


class CleanSpans(SpanProcessor):
    """Stands before a processor and hands it each finished span as it may be told."""

    def __init__(self, target: SpanProcessor) -> None:
        self._target = target

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Pass on; what is written into the span later is looked at when it ends."""
        self._target.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """Pass on a clean copy."""
        self._target.on_end(cleaned(span))

    def shutdown(self) -> None:
        """Pass on."""
        self._target.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Pass on."""
        return self._target.force_flush(timeout_millis)


def cleaned(span: ReadableSpan) -> ReadableSpan:
    """A copy of a finished span whose texts hold no secret."""
    description = span.status.description
    return ReadableSpan(
        name=told(span.name),
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=_attributes(span.attributes),
        events=[
            Event(told(event.name), _attributes(event.attributes), event.timestamp)
            for event in span.events
        ],
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code, description and told(description)),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _attributes(found: Mapping[str, AttributeValue] | None) -> dict[str, AttributeValue]:
    return {name: _value(value) for name, value in (found or {}).items()}


def _value(value: AttributeValue) -> AttributeValue:
    if isinstance(value, str):
        return told(value)
    if isinstance(value, list | tuple) and value and isinstance(value[0], str):
        return tuple(told(item) for item in value)
    return value
