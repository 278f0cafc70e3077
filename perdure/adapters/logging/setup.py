"""Sets up logs: events with fields, on standard error, as JSON in a pipe and readable elsewhere.

Standard logging (of Temporal and the model SDKs) goes through the same renderer, and secrets are
removed from every finished line. Workflow code logs only with `workflow.logger`, which is silent
during replay. This module must not import Temporal: the command line configures its logs before it
knows whether it needs a server.
"""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from io import StringIO
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, ExcInfo, Processor

from perdure.adapters.logging.redacting import without_secrets
from perdure.domain.foundation.plain_text import printable

Level = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "json", "console"]

JSON_OF_FORMAT: Mapping[LogFormat, bool | None] = {"auto": None, "json": True, "console": False}
# At level info each of these writes a line per request, and a run makes thousands.
CHATTY = ("anthropic", "httpcore2", "httpx2", "asyncio", "urllib3")
OF_WORKERS = "temporalio.worker"
REPEATED_S = 60.0
# The fields of log records in which Temporal's SDK puts its details, and our names for them.
TEMPORAL_EXTRAS = ("temporal_workflow", "temporal_activity")
TEMPORAL_FIELDS = {
    "workflow_id": "run",
    "activity_type": "step",
    "activity_id": "activity_id",
    "attempt": "attempt",
    "update_name": "update",
}


class _Handler(logging.StreamHandler[TextIO]):
    """A class of our own, so that a second configuration replaces only our handler."""


class _OnceForAll(logging.Filter):
    """Lets a line through once that each of a process's Temporal workers writes, one by one.

    A worker of ours polls several queues, and so is several workers of the SDK. Warnings pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith(OF_WORKERS) or record.levelno > logging.INFO:
            return True
        text = record.getMessage()
        before = self._written.get(text)
        self._written = {
            line: at for line, at in self._written.items() if record.created - at < REPEATED_S
        }
        # The first time counts: else a line that keeps coming would never be written again.
        self._written.setdefault(text, record.created)
        return before is None or record.created - before >= REPEATED_S


class _CleanLines(structlog.stdlib.ProcessorFormatter):
    """Removes secrets from finished lines, whichever field they came from; JSON stays valid."""

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


def configure_logging(
    *, stream: TextIO | None = None, level: Level = "info", json: bool | None = None
) -> None:
    """Send structlog's and standard logging's records to one stream; may be called again.

    Args:
        stream: where lines go; None means standard error.
        level: the lowest level that is shown.
        json: one JSON object per line, or lines for people; None: JSON unless on a terminal.
    """
    out = stream or sys.stderr
    as_json = not out.isatty() if json is None else json
    handler = _Handler(out)
    handler.addFilter(_OnceForAll())
    handler.setFormatter(_formatter(as_json=as_json, colors=out.isatty()))
    root = logging.getLogger()
    for old in [item for item in root.handlers if isinstance(item, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    quiet = logging.NOTSET if level == "debug" else logging.WARNING
    for name in CHATTY:
        logging.getLogger(name).setLevel(quiet)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,  # a logger used before this call must follow it too
    )


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.StackInfoRenderer(),
        _name_the_span,
    ]


def _name_the_span(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Add the trace and span of a line, if this process is traced."""
    # Not imported here: a process without tracing should not pay for the import.
    tracing = sys.modules.get("opentelemetry.trace")
    if tracing is not None:
        found = tracing.get_current_span().get_span_context()
        if found.is_valid:
            event.setdefault("trace_id", f"{found.trace_id:032x}")
            event.setdefault("span_id", f"{found.span_id:016x}")
    return event


def _formatter(*, as_json: bool, colors: bool) -> logging.Formatter:
    # Plain tracebacks in both: richer ones print local variables, which may hold secrets.
    ending: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
        if as_json
        else [
            _make_printable,
            structlog.dev.ConsoleRenderer(
                colors=colors, timestamp_key="at", exception_formatter=_printable_traceback
            ),
        ]
    )
    return _CleanLines(
        foreign_pre_chain=[*_shared(), _name_temporal_fields],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
    )


def _make_printable(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Remove terminal controls from texts; the renderer writes other values as literals."""
    return {
        name: printable(value) if isinstance(value, str) else value for name, value in event.items()
    }


def _printable_traceback(stream: TextIO, exc_info: ExcInfo) -> None:
    written = StringIO()
    structlog.dev.plain_traceback(written, exc_info)
    stream.write(printable(written.getvalue()))


def _name_temporal_fields(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> EventDict:
    """Turn the details that Temporal appends to a message as text into fields of ours."""
    record = event.get("_record")
    suffix: dict[str, object] = {}
    for extra in TEMPORAL_EXTRAS:
        details: object = getattr(record, extra, None)
        if isinstance(details, Mapping):
            suffix[extra] = details
            for theirs, ours in TEMPORAL_FIELDS.items():
                if theirs in details:
                    event.setdefault(ours, details[theirs])
    message = str(event.get("event", ""))
    # Activities append the bare details, workflows a mapping of them by name.
    for appended in (suffix, *suffix.values()):
        message = message.removesuffix(f" ({appended})")
    event["event"] = message
    # Add what Temporal's core says about a line: its module, and its own fields.
    core: object = getattr(record, "temporal_log", None)
    if core is not None:
        event["target"] = getattr(core, "target", "")
        event["fields"] = getattr(core, "fields", {})
    return event
