"""Turns what a provider's client raises into facts; the same for every provider."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import httpx2

from perdure.adapters.llm.answer_bounds import AnswerTooLong
from perdure.adapters.llm.error_kinds import kind_of, unsent_error
from perdure.adapters.logging.redacting import without_secrets
from perdure.adapters.retry_after import retry_after_of
from perdure.domain.foundation.plain_text import cause_in_words
from perdure.domain.llm.errors import ModelError, ModelErrorKind, ModelFacts
from perdure.domain.llm.usage import Usage

CONNECT_TIMEOUT_S = 5.0
# Between two pieces of a stream: a model may think for minutes before it writes.
READ_TIMEOUT_S = 300.0
# Counting only improves the estimate, so it may fail, but must not delay the call.
COUNT_TIMEOUT_S = 10.0
MESSAGE_CHARACTERS = 500

_CURES: dict[ModelErrorKind, str] = {
    "authentication": "Check the API key{key}.",
    "permission": "Check what the account may use, and its credit.",
    "unknown_model": "Check the model's name and the base URL.",
    "too_large": "Send less.",
    "context_overflow": "Shorten the conversation or use a model with a larger window.",
}
_PROXIES = "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY"
# Raised before anything was sent, so the attempt cost nothing.
_NOT_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
    UnicodeEncodeError,
)


@dataclass(frozen=True, slots=True)
class ProviderError:
    """An error that a provider sent instead of an answer, or inside a stream.

    `type` and `code` are the provider's own words; one of them names the kind. An error inside a
    stream has status 200.
    """

    status: int
    message: str
    type: str | None = None
    code: str | None = None
    request_id: str | None = None
    headers: Mapping[str, str] | None = None


class SaidError(Exception):
    """Raised by the reader of a stream when the provider sent an error inside it."""

    def __init__(self, said: ProviderError) -> None:
        super().__init__(said.message)
        self.said = said


@dataclass(frozen=True, slots=True)
class ClientErrors:
    """How the official client of a provider fails.

    Attributes:
        told: the provider's error in an exception; None if the exception has none.
        timeouts: raised if there was no answer in time.
        connections: raised if the provider was not reached, or the connection was lost.
        failures: the base of everything that the client itself raises; its transport raises more.
        request_id: the name of the header with the provider's id of a request.
        key: where the API key is set, for the error of a refused one; empty if that is unknown.
    """

    told: Callable[[Exception], ProviderError | None]
    timeouts: type[Exception]
    connections: type[Exception]
    failures: type[Exception]
    request_id: str
    key: str = ""


@contextmanager
def unmade_is_unavailable() -> Generator[None]:
    """Around the making of a client: an error there is a call that was not sent.

    The client reads proxies and certificates from the environment, and each library on the way has
    errors of its own for them.
    """
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        why = cause_in_words(error, otherwise=_named(error)).rstrip(".")
        raise unsent_error(
            f"The client of the model provider cannot be made, so nothing was sent ({why}). "
            f"Check its base URL, {_PROXIES}, SSL_CERT_FILE and SSL_CERT_DIR in the environment of "
            "the process that runs the workers, and start it again.",
            kind="unavailable",
        ) from error


def facts_of(
    error: Exception,
    client: ClientErrors,
    *,
    usage: Usage,
    confirmed: bool,
    request_id: str | None,
    streaming: bool,
) -> ModelFacts:
    """The facts of anything that a call to the client may raise.

    Args:
        error: as raised.
        client: the client that raised it.
        usage: what the attempt had used by then.
        confirmed: whether the provider itself reported that usage. An error status instead of an
            answer confirms it too, since nothing was generated.
        request_id: the provider's id of the request, if the answer had begun.
        streaming: whether the answer had begun.
    """
    said = error.said if isinstance(error, SaidError) else client.told(error)
    if said is not None:
        return provider_facts(
            said,
            usage=usage,
            confirmed=confirmed or not streaming,
            request_id=request_id,
            key=client.key,
        )
    # First, since clients wrap it in a connection error, which is tried again more often than
    # an answer that cannot be used.
    if (long := AnswerTooLong.behind(error)) is not None:
        kind: ModelErrorKind = "bad_reply"
        message = f"The provider's answer cannot be used: {long}."
    # Before the connections: in both SDKs a timeout is a connection error.
    elif isinstance(error, client.timeouts | httpx2.TimeoutException):
        kind = "timeout"
        message = "The model provider did not answer in time."
    elif isinstance(error, client.connections | httpx2.TransportError):
        kind = "cut" if streaming else "connection"
        what = (
            "The model's answer was cut off" if streaming else "The model provider was not reached"
        )
        why = cause_in_words(error, otherwise=_named(error))
        message = f"{what}{_redirected(error)} ({why}).{_of_proxy(error)}"
    elif isinstance(error, UnicodeEncodeError) and not streaming:
        kind, message = _unsendable(error, client)
    else:
        kind = "bad_reply"
        message = f"The provider's answer is not a message stream ({_named(error)})."
    reached = streaming or not isinstance(error.__cause__ or error, _NOT_SENT)
    return ModelFacts(
        kind=kind,
        message=message,
        usage=usage,
        confirmed=confirmed or not reached,
        request_id=request_id,
        sent=reached,
    )


def _unsendable(error: UnicodeEncodeError, client: ClientErrors) -> tuple[ModelErrorKind, str]:
    """What is wrong with a call that could not be encoded."""
    # Headers are encoded as ASCII, the rest as UTF-8; the key is the only header that varies.
    if error.encoding == "ascii":
        what = f"the API key{_place(client.key)} holds a sign that no header can carry"
        return "authentication", f"Nothing was sent, since {what}."
    return "bad_request", "Nothing was sent, since the request holds half of a character."


def _of_proxy(error: Exception) -> str:
    """What to do about a proxy that refused to connect; nothing about any other failure."""
    if not isinstance(error.__cause__ or error, httpx2.ProxyError):
        return ""
    return f" Check {_PROXIES} where the workers run."


def _redirected(error: Exception) -> str:
    """Where the provider had sent the call when the connection failed; empty if nowhere else."""
    cause = error.__cause__
    asked: object = getattr(error, "request", None)
    if not isinstance(asked, httpx2.Request) or not isinstance(cause, httpx2.RequestError):
        return ""
    went = cause.request.url
    if (went.scheme, went.netloc) == (asked.url.scheme, asked.url.netloc):
        return ""
    # Without path and query, which may hold a key.
    place = went.copy_with(username=None, password=None, path="/", query=None, fragment=None)
    return f" where {asked.url.host} redirected the call, {place}"


def provider_facts(
    error: ProviderError, *, usage: Usage, confirmed: bool, request_id: str | None, key: str = ""
) -> ModelFacts:
    """The facts of a provider's error; `key` says where its API key is set."""
    kind = kind_of(status=error.status, provider_type=error.type, code=error.code)
    # Redact before cutting: the redactor would not recognize half a key.
    said = without_secrets(error.message)[:MESSAGE_CHARACTERS].rstrip(".")
    what = f"{error.status} {error.type}" if error.type else str(error.status)
    cure = _CURES.get(kind, "").replace("{key}", _place(key))
    message = f"The model provider answered {what}: {said}. {cure}".strip()
    return ModelFacts(
        kind=kind,
        message=message,
        status=error.status,
        provider_code=error.code or error.type,
        retry_after_s=retry_after_of(error.headers or {}),
        request_id=error.request_id or request_id,
        usage=usage,
        confirmed=confirmed,
    )


def _place(key: str) -> str:
    return f" ({key})" if key else ""


def _named(error: Exception) -> str:
    cause = error.__cause__ or error
    words = without_secrets(cause)[:MESSAGE_CHARACTERS]
    return f"{type(cause).__name__}: {words}" if words else type(cause).__name__
