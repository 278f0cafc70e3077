"""Converts failures for Temporal: without secrets, and short enough for the server to keep whole.

While a step is retried, the server cuts its failure at 4 KiB, often in the middle of the cause. A
chain of causes with tracebacks is longer than that, so it is shortened here; the log has all of it.
"""

import json
from collections.abc import Iterator

from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter, FailureConverter, PayloadConverter
from temporalio.exceptions import ApplicationError

from perdure.adapters.logging.redacting import without_secrets

# Safely below the server's limit of 4 KiB.
KEPT_BYTES = 3_500
# Cut to these, one failure and two causes stay below that limit together.
MESSAGE_BYTES = 2_000
STACK_BYTES = 500
CAUSES_KEPT = 2
CAUSE_BYTES = 300
ENCODED = "Encoded failure"


class ShortFailures(FailureConverter):
    """The default conversion, without secrets and shortened.

    Args:
        encoded: send message and traceback as a payload, which a codec can encrypt.
    """

    def __init__(self, *, encoded: bool = False) -> None:
        self._default = DefaultFailureConverter()
        self._encoded = encoded

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        try:
            self._default.to_failure(exception, payload_converter, failure)
        except UnicodeEncodeError:
            # The first try has filled a part of it.
            failure.Clear()
            self._default.to_failure(_printable(exception), payload_converter, failure)
        for link in _chain(failure):
            # Before it is shortened: the redactor would not recognize half a secret.
            link.message, link.stack_trace = (
                without_secrets(link.message),
                without_secrets(link.stack_trace),
            )
        if failure.ByteSize() > KEPT_BYTES:
            _shorten(failure)
        if self._encoded:
            for link in _chain(failure):
                _encode(link, payload_converter)

    def from_failure(self, failure: Failure, payload_converter: PayloadConverter) -> BaseException:
        """The exception that a failure describes, encoded or not."""
        return self._default.from_failure(failure, payload_converter)


class EncodedFailures(ShortFailures):
    """Short failures whose message and traceback a codec can encrypt."""

    def __init__(self) -> None:
        super().__init__(encoded=True)


def _shorten(failure: Failure) -> None:
    failure.message = _cut(failure.message, MESSAGE_BYTES)
    failure.stack_trace = _cut(failure.stack_trace, STACK_BYTES)
    for depth, link in enumerate(_chain(failure)):
        if depth:
            link.message = _cut(link.message, CAUSE_BYTES)
            link.stack_trace = ""
        if depth == CAUSES_KEPT:
            link.ClearField("cause")
            return


def _chain(failure: Failure) -> Iterator[Failure]:
    link = failure
    while True:
        yield link
        if not link.HasField("cause"):
            return
        link = link.cause


def _cut(text: str, size: int) -> str:
    """The beginning of a text, with at most `size` bytes as JSON, which encoded failures use."""
    used = 0
    for index, character in enumerate(text):
        used += len(json.dumps(character)) - 2
        if used > size:
            return text[:index]
    return text


def _printable(exception: BaseException) -> BaseException:
    """The same failure, with question marks for characters that UTF-8 cannot encode."""
    message = str(exception).encode(errors="replace").decode()
    if isinstance(exception, ApplicationError):
        message = exception.message.encode(errors="replace").decode()
        printed = ApplicationError(
            message,
            *exception.details,
            type=exception.type,
            non_retryable=exception.non_retryable,
            next_retry_delay=exception.next_retry_delay,
        )
    else:
        printed = ApplicationError(message, type=type(exception).__name__)
    cause = exception.__cause__
    printed.__cause__ = None if cause is None else _printable(cause)
    return printed


def _encode(failure: Failure, payload_converter: PayloadConverter) -> None:
    # In the form of the SDK, whose other clients decode it with their own converter.
    words = {"message": failure.message, "stack_trace": failure.stack_trace}
    failure.encoded_attributes.CopyFrom(payload_converter.to_payloads([words])[0])
    failure.message, failure.stack_trace = ENCODED, ""
