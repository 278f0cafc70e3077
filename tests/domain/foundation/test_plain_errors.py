import errno
import socket

import pytest

from perdure.domain.foundation.plain_text import cause_in_words, said_in_words

TONIC = "Failed client connect: Server connection error: tonic::transport::Error(Transport, "
REFUSED = (
    TONIC + 'ConnectError(ConnectError("tcp connect error", 127.0.0.1:9, '
    'Os { code: 111, kind: ConnectionRefused, message: "Connection refused" })))'
)
NO_HOST = (
    TONIC + 'ConnectError(ConnectError("dns error", Custom { kind: Uncategorized, error: '
    '"failed to lookup address information: Name or service not known" })))'
)
FULL_SERVER = (
    "CreateWorkflowExecution operation failed. Failed to insert: database or disk is full (13) "
    "INSERT INTO executions (shard_id) VALUES (?)"
)


def wrapped(cause: BaseException) -> Exception:
    try:
        try:
            raise cause
        except type(cause) as error:
            raise RuntimeError("All connection attempts failed") from error
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(RuntimeError(REFUSED), "connection refused", id="refused, from Rust"),
        pytest.param(RuntimeError(NO_HOST), "no such host", id="no host, from Rust"),
        pytest.param(
            wrapped(ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed")),
            "connection refused",
            id="refused, below another",
        ),
        pytest.param(
            wrapped(socket.gaierror(socket.EAI_NONAME, "Name or service not known")),
            "no such host",
            id="no host, below another",
        ),
        pytest.param(
            wrapped(ExceptionGroup("all", [OSError(errno.EHOSTUNREACH, "x"), ValueError()])),
            "no route to the host",
            id="in a group",
        ),
        pytest.param(OSError(errno.ENOSPC, "No space left"), "the disk is full", id="full disk"),
        pytest.param(TimeoutError("timed out"), "no answer in time", id="in time"),
        pytest.param(
            RuntimeError(TONIC + "InvalidCertificate(UnknownIssuer))"),
            "its certificate is not trusted",
            id="certificate",
        ),
        pytest.param(
            RuntimeError(TONIC + "InvalidContentType)"), "the TLS handshake failed", id="no TLS"
        ),
        pytest.param(ValueError("what else"), "no connection", id="unknown"),
    ],
)
def test_a_cause_is_named_without_its_insides(error: Exception, words: str) -> None:
    assert cause_in_words(error, otherwise="no connection") == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("Namespace x is not found.", "Namespace x is not found", id="own words"),
        pytest.param(
            "Select another namespace or wait, then update it",
            "Select another namespace or wait, then update it",
            id="words that SQL has too",
        ),
        pytest.param(REFUSED, "connection refused", id="Rust"),
        pytest.param(FULL_SERVER, "the disk is full", id="SQL of a full disk"),
        pytest.param("[SQL: PRAGMA x]", "it failed inside", id="SQL without a known cause"),
    ],
)
def test_what_a_server_said_is_kept_unless_it_shows_its_insides(text: str, words: str) -> None:
    assert said_in_words(text, otherwise="it failed inside") == words


def test_a_circle_of_causes_ends() -> None:
    one, two = ValueError("a"), ValueError("b")
    one.__cause__, two.__cause__ = two, one
    assert cause_in_words(one, otherwise="unknown") == "unknown"
