"""Turn what the SDK and the transport raise into facts; the only place that knows their classes."""

import anthropic
import httpx2

from perdure.adapters.llm.error_kinds import kind_of
from perdure.adapters.llm.retry_after import retry_after_of
from perdure.adapters.logging.redacting import told
from perdure.domain.foundation.plain_errors import cause_in_words
from perdure.domain.llm.errors import ModelErrorKind, ModelFacts
from perdure.domain.llm.usage import Usage

MESSAGE_CHARACTERS = 500

_CURES: dict[ModelErrorKind, str] = {
    "authentication": "Check the API key.",
    "permission": "Check what the account may use, and its credit.",
    "unknown_model": "Check the model's name and the base URL.",
    "too_large": "Send less.",
    "context_overflow": "Shorten the conversation or use a model with a larger window.",
}
# Raised before the first byte left: the attempt cost nothing.
_NOT_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)


def facts_of(
    error: Exception,
    *,
    usage: Usage,
    confirmed: bool,
    request_id: str | None,
    streaming: bool,
) -> ModelFacts:
    """The facts behind anything that a call to the SDK may raise.

    Args:
        error: as raised.
        usage: what the attempt had consumed by then.
        confirmed: whether that is the provider's own word; an error status in place of an answer is
            one, too: nothing was produced.
        request_id: the provider's id of the request, where the answer had begun.
        streaming: whether the answer had begun.
    """
    match error:
        case anthropic.APIStatusError():
            return _status_facts(
                error, usage=usage, confirmed=confirmed or not streaming, request_id=request_id
            )
        case anthropic.APITimeoutError() | httpx2.TimeoutException():
            kind: ModelErrorKind = "timeout"
            message = "The model provider did not answer in time."
        case anthropic.APIConnectionError() | httpx2.TransportError() if streaming:
            kind, message = "cut", f"The model's answer was cut off ({_cause(error)})."
        case anthropic.APIConnectionError() | httpx2.TransportError():
            kind, message = "connection", f"The model provider was not reached ({_cause(error)})."
        case _:
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


def _status_facts(
    error: anthropic.APIStatusError, *, usage: Usage, confirmed: bool, request_id: str | None
) -> ModelFacts:
    status = error.status_code
    # The SDK declares a closed set of types; providers send others, and none at all.
    provider_type = str(error.type) if error.type else None
    kind = kind_of(status=status, provider_type=provider_type)
    # Secrets are taken out before anything is cut: half a key is a key that nobody recognizes.
    said = told(error.api_message or error.message)[:MESSAGE_CHARACTERS].rstrip(".")
    what = f"{status} {provider_type}" if provider_type else str(status)
    message = f"The model provider answered {what}: {said}. {_CURES.get(kind, '')}".strip()
    return ModelFacts(
        kind=kind,
        message=message,
        status=status,
        provider_code=error.error_code or provider_type,
        retry_after_s=retry_after_of(error.response.headers),
        request_id=error.request_id or request_id,
        usage=usage,
        confirmed=confirmed,
    )


def _cause(error: Exception) -> str:
    return cause_in_words(error, otherwise=_named(error))


def _named(error: Exception) -> str:
    cause = error.__cause__ or error
    words = told(cause)[:MESSAGE_CHARACTERS]
    return f"{type(cause).__name__}: {words}" if words else type(cause).__name__
