"""Failures stay below what the server cuts, and say the same at their beginning."""

import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultPayloadConverter, FailureConverter
from temporalio.exceptions import ApplicationError

from perdure.adapters.temporal.failure_converter import EncodedFailures, ShortFailures

SERVER_CUTS_ABOVE = 4 * 1024
PAYLOADS = DefaultPayloadConverter()


def _deep(depth: int, *, words: str) -> BaseException:
    """A chain of causes as real code raises it, each with its traceback."""
    try:
        if depth:
            raise RuntimeError(f"{depth}: {words}") from _deep(depth - 1, words=words)
        raise KeyError(words)
    except (RuntimeError, KeyError) as error:
        return error


def _told(error: BaseException, converter: FailureConverter) -> Failure:
    failure = Failure()
    converter.to_failure(error, PAYLOADS, failure)
    return failure


@pytest.mark.parametrize("converter", [ShortFailures(), EncodedFailures()], ids=["plain", "sealed"])
@pytest.mark.parametrize("words", ["x" * 5_000, "ж" * 5_000, "\ud800" * 5_000])
@pytest.mark.parametrize("depth", [0, 1, 12])
def test_a_deep_failure_is_kept_whole_by_the_server(
    converter: FailureConverter, words: str, depth: int
) -> None:
    error = ApplicationError("what happened: " + words, {"used": 7}, type="model_server")
    error.__cause__ = _deep(depth, words=words)
    failure = _told(error, converter)
    assert failure.ByteSize() <= SERVER_CUTS_ABOVE
    read = converter.from_failure(failure, PAYLOADS)
    assert isinstance(read, ApplicationError)
    assert read.message.startswith("what happened: ")
    assert (read.type, read.details) == ("model_server", ({"used": 7},))
    assert read.__cause__ is not None


def test_a_short_failure_keeps_its_traceback() -> None:
    failure = _told(_deep(1, words="no"), ShortFailures())
    assert "_deep" in failure.stack_trace
    assert "_deep" in failure.cause.stack_trace


def test_encoded_words_are_nowhere_else() -> None:
    failure = _told(_deep(2, words="a secret"), EncodedFailures())
    failure.ClearField("encoded_attributes")
    failure.cause.ClearField("encoded_attributes")
    failure.cause.cause.ClearField("encoded_attributes")
    assert b"secret" not in failure.SerializeToString()
