"""Logs of a serving process: every library writes to the same place in the same format.

This includes Temporal's core, which is Rust and would write to standard error by itself, warnings
of Python, and uncaught exceptions in any thread.
"""

import logging
import sys
import threading
from types import TracebackType

from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

from perdure.adapters.logging.setup import JSON_OF_FORMAT, Level, configure_logging
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import PerdureError
from perdure.domain.foundation.plain_text import printable
from perdure.event_log import get_logger

CORE = "temporalio.core"
_CORE_LEVELS: dict[Level, str] = {
    "debug": "INFO", "info": "WARN", "warning": "WARN", "error": "ERROR",
}  # fmt: skip
_log = get_logger(__name__)


def log_process(settings: Settings, *, level: Level | None = None) -> None:
    """Send all output of this process to its log; may be called again."""
    told = level or settings.log_level
    configure_logging(level=told, json=JSON_OF_FORMAT[settings.log_format])
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    # Only the first runtime of a process is used: a client that exists already keeps its own.
    Runtime.set_default(
        Runtime(telemetry=TelemetryConfig(logging=core_logging(told))), error_if_already_set=False
    )


def core_logging(level: Level = "info") -> LoggingConfig:
    """Make Temporal's core write to our log; what it adds to a line becomes fields."""
    return LoggingConfig(
        filter=TelemetryFilter(core_level=_CORE_LEVELS[level], other_level="ERROR"),
        forwarding=LogForwardingConfig(
            logger=logging.getLogger(CORE),
            append_target_to_name=False,
            prepend_target_on_message=False,
            append_log_fields_to_message=False,
        ),
    )


def told_at_the_end(error: PerdureError, *, as_json: bool) -> None:
    """Report why a process ends, as a line of its log or in words for a person."""
    if as_json:
        # If a setting is wrong, the log is not set up yet.
        configure_logging(level="info", json=True)
        _log.error("ended", code=error.code, why=error.message, cure=error.cure)
    else:
        sys.stderr.write(f"{printable(str(error))}\n")


def _uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    _log.critical("uncaught", exc_info=(kind, error, traceback))


def _uncaught_in_thread(found: threading.ExceptHookArgs) -> None:
    # As Python does by itself: to end a thread with `SystemExit` is no failure.
    if found.exc_value is not None and not isinstance(found.exc_value, SystemExit):
        name = found.thread.name if found.thread is not None else ""
        told = (found.exc_type, found.exc_value, found.exc_traceback)
        _log.critical("uncaught", thread=name, exc_info=told)
