"""The loggers of Perdure's own events, in whichever program it runs.

Commands and `perdure worker` set structlog up, and so may the program that Perdure is part of:
that setup then holds. Any other program has standard logging, set up or not. Its loggers, levels
and handlers are used there: structlog by itself would print every event to standard output, where
a program may have output of its own, and where no level or format of the program reaches.
"""

import logging
from typing import cast

import structlog
from structlog.typing import EventDict

EXCEPTION = "exc_info"


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger of events with fields; which setup holds is seen at each event."""
    return cast("structlog.stdlib.BoundLogger", _EventLog(name))


class _EventLog:
    """One of two loggers, for each event."""

    def __init__(self, name: str) -> None:
        self._configured: object = structlog.get_logger(name)
        self._standard: object = structlog.wrap_logger(
            logging.getLogger(name),
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.contextvars.merge_contextvars,
                _line,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            context_class=dict,
        )

    def __getattr__(self, name: str) -> object:
        # Asked at each event: a program may set structlog up after it has imported Perdure.
        return getattr(self._configured if structlog.is_configured() else self._standard, name)


def _line(_logger: object, _method: str, event: EventDict) -> tuple[tuple[str], dict[str, object]]:
    """The event and its fields as one text: names such as `name` are taken in log records."""
    error: object = event.pop(EXCEPTION, None)
    words = " ".join([str(event.pop("event")), *(f"{name}={event[name]!r}" for name in event)])
    # `%` stays as it is, since no arguments come with the text.
    return (words,), {} if error is None else {EXCEPTION: error}
