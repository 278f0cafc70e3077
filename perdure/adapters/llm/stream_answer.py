"""Read one streamed answer to its end: a reply, or facts of its failure."""

from collections.abc import AsyncIterator, Callable

import anthropic
import httpx2
from anthropic import AsyncStream
from anthropic.types import RawMessageStreamEvent

from perdure.adapters.llm.error_kinds import kind_of, retry_after_of
from perdure.adapters.llm.request import WireRequest
from perdure.adapters.llm.stream_reader import StreamState
from perdure.adapters.logging.redacting import told
from perdure.domain.foundation.plain_text import cause_in_words
from perdure.domain.llm.errors import ModelError, ModelErrorKind, ModelFacts
from perdure.domain.llm.requests import ModelReply, ModelRequest
from perdure.domain.llm.transcript import Block, Message, ToolUseBlock
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


async def read_answer(
    stream: AsyncStream[RawMessageStreamEvent], reading: StreamState, on_text: Callable[[str], None]
) -> None:
    """Feed `reading` to the end of the stream; `on_text` gets each piece of text.

    Raises:
        ModelError: the answer is no message stream, broke off, or came with an error event.
    """
    request_id = stream.response.headers.get("request-id")
    media = stream.response.headers.get("content-type", "")
    if "event-stream" not in media:
        await stream.response.aread()
        raise _unusable(reading, request_id, f"it answered {media or 'without a content type'}")
    async for text in _texts(stream, reading, request_id):
        on_text(text)
    if reading.provider_stop is None:
        message = "The model's answer ended before it was complete."
        raise _error("cut", message, reading, request_id)


async def _texts(
    stream: AsyncStream[RawMessageStreamEvent], reading: StreamState, request_id: str | None
) -> AsyncIterator[str]:
    """The text deltas; whatever breaks while reading becomes facts with the usage so far."""
    iterator = aiter(stream)
    while True:
        try:
            text = reading.feed(await anext(iterator))
        except StopAsyncIteration:
            return
        except Exception as error:
            if reading.provider_stop is not None and isinstance(error, httpx2.TransportError):
                return  # everything had arrived; only the goodbye was lost
            raise failed(error, reading, request_id=request_id, streaming=True) from error
        if text:
            yield text


def reply_of(
    request: ModelRequest, wire: WireRequest, reading: StreamState, request_id: str | None
) -> ModelReply:
    """The reply of a complete reading; raises `ModelError` kind `bad_reply` where it has none."""
    stop = reading.stop_reason
    if stop is None:
        why = f"the stop reason {reading.provider_stop!r} is unknown here"
        raise _unusable(reading, request_id, why)
    try:
        blocks = reading.blocks(model=request.model)
    except (ValueError, TypeError, LookupError) as error:
        raise _unusable(reading, request_id, f"a block is malformed: {error}") from error
    return ModelReply(
        message=Message(role="assistant", blocks=tuple(_renamed(block, wire) for block in blocks)),
        stop_reason=stop,
        usage=reading.used(),
        confirmed=reading.usage_told,
        model=reading.model or request.model,
        request_id=request_id,
        cut_call=wire.names.get(reading.cut_call, reading.cut_call),
    )


def _renamed(block: Block, wire: WireRequest) -> Block:
    if not isinstance(block, ToolUseBlock):
        return block
    return block.model_copy(update={"name": wire.names.get(block.name, block.name)})


def failed(
    error: Exception, reading: StreamState, *, request_id: str | None, streaming: bool
) -> ModelError:
    """The error behind an exception, with what the reading had used by then."""
    return ModelError(
        facts_of(
            error,
            usage=reading.used(),
            confirmed=reading.usage_told,
            request_id=request_id,
            streaming=streaming,
        )
    )


def _unusable(reading: StreamState, request_id: str | None, why: str) -> ModelError:
    message = f"The provider's answer cannot be used: {why}."
    return _error("bad_reply", message, reading, request_id)


def _error(
    kind: ModelErrorKind, message: str, reading: StreamState, request_id: str | None
) -> ModelError:
    return ModelError(
        ModelFacts(
            kind=kind,
            message=message,
            usage=reading.used(),
            confirmed=reading.usage_told,
            request_id=request_id,
        )
    )
