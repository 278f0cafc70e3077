"""Read one streamed answer to its end and make a reply of it, or facts of its failure."""

from collections.abc import AsyncIterator, Callable

import httpx2
from anthropic import AsyncStream
from anthropic.types import RawMessageStreamEvent

from perdure.adapters.llm.errors import facts_of
from perdure.adapters.llm.request import WireRequest
from perdure.adapters.llm.stream_reader import StreamState
from perdure.domain.llm.errors import ModelError, ModelErrorKind, ModelFacts
from perdure.domain.llm.requests import ModelReply, ModelRequest
from perdure.domain.llm.transcript import Block, Message, ToolUseBlock


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
