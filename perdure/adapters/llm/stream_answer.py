"""Reads one streamed answer to its end: the result is a reply, or the facts of its failure."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol, TypeVar

import httpx2

from perdure.adapters.llm.call_failures import ClientErrors, facts_of
from perdure.adapters.llm.finish_reasons import failure_of
from perdure.domain.llm.errors import ModelError, ModelErrorKind, ModelFacts
from perdure.domain.llm.requests import ModelReply, ModelRequest, StopReason
from perdure.domain.llm.transcript import Block, Message, ToolUseBlock
from perdure.domain.llm.usage import Usage

EventT_co = TypeVar("EventT_co", covariant=True)
EventT_contra = TypeVar("EventT_contra", contravariant=True)
EventT = TypeVar("EventT")

# The second is Bedrock's own framing, which its client reads.
STREAMS = ("event-stream", "vnd.amazon.eventstream")
# What servers say of a stream that do not name its type: whether it is one shows when it is read.
_UNNAMED = ("", "text/plain")
PAGE = "text/html"


class EventStream(Protocol[EventT_co]):
    """A streamed answer, as the official clients return it."""

    @property
    def response(self) -> httpx2.Response: ...

    def __aiter__(self) -> AsyncIterator[EventT_co]: ...


class Account(Protocol):
    """What is known of an answer while it arrives, from any provider."""

    model: str | None
    provider_stop: str | None

    @property
    def usage_told(self) -> bool: ...

    def used(self) -> Usage: ...

    @property
    def stop_reason(self) -> StopReason | None: ...

    @property
    def cut_call(self) -> str: ...

    def blocks(self, *, model: str) -> tuple[Block, ...]: ...


class Reading(Account, Protocol[EventT_contra]):
    """A reader of an answer: `feed` takes one event and returns the text that it adds."""

    def feed(self, event: EventT_contra, /) -> str | None: ...


async def read_answer(
    stream: EventStream[EventT],
    reading: Reading[EventT],
    client: ClientErrors,
    on_text: Callable[[str], None],
    *,
    cure: str = "",
) -> None:
    """Feed `reading` to the end of the stream; `on_text` gets each piece of text.

    `cure` says what to do about a server that answers with something else than a stream.

    Raises:
        ModelError: the answer is no message stream, broke off, or contained an error event.
    """
    request_id = stream.response.headers.get(client.request_id)
    media = media_of(stream.response)
    if media not in _UNNAMED and not any(kind in media for kind in STREAMS):
        with contextlib.suppress(httpx2.HTTPError):  # whatever it was, it was no stream
            await stream.response.aread()
        if media == PAGE:
            # A gateway that is in the way, as in an outage: no model answered, so that trying
            # again costs patience alone.
            message = f"No model answered: {_no_stream(media, cure)}."
            raise _error("server", message, reading, request_id)
        raise unusable(reading, request_id, _no_stream(media, cure))
    async for text in _texts(stream, reading, client, request_id):
        # Not inside `_texts`: an error of the listener is none of the provider.
        on_text(text)
    if reading.provider_stop is None and media in _UNNAMED and reading.used() == Usage():
        raise unusable(reading, request_id, _no_stream(media, cure))
    if reading.provider_stop is None and reading.used() == Usage():
        message = "The model's answer ended before it began."
        raise _error("cut", message, reading, request_id)
    if reading.provider_stop is None:
        # The connection was closed as it should be. Whether the answer is whole is not known, and
        # a server that never tells an end would sell the same answer again and again.
        raise unusable(
            reading, request_id, "it does not say why it ended, so it may not be complete"
        )


def media_of(response: httpx2.Response) -> str:
    """The content type of an answer without its parameters; empty if it has none."""
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _no_stream(media: str, cure: str) -> str:
    told = f"it answered {media or 'without a content type'} instead of a stream"
    if media == PAGE:
        return f"{told}, which is a page for people. Check the base URL"
    return f"{told}. {cure}" if cure else told


async def _texts(
    stream: EventStream[EventT],
    reading: Reading[EventT],
    client: ClientErrors,
    request_id: str | None,
) -> AsyncIterator[str]:
    """The text deltas; any error while reading becomes facts with the usage so far."""
    iterator = aiter(stream)
    while True:
        try:
            text = reading.feed(await anext(iterator))
        except StopAsyncIteration:
            return
        except ModelError:
            raise
        except Exception as error:
            lost = isinstance(error, client.connections | httpx2.TransportError)
            if lost and reading.provider_stop is not None:
                return  # the whole answer had arrived; only the end of the stream was lost
            raise call_error(
                error, reading, client, request_id=request_id, streaming=True
            ) from error
        if text:
            yield text


def reply_of(
    request: ModelRequest, reading: Account, request_id: str | None, *, names: Mapping[str, str]
) -> ModelReply:
    """The reply of a complete reading.

    A finish reason that is unknown here ends an answer as an ordinary one does: it has arrived as a
    whole, and is paid for. The reply's notes name it. `names` maps wire names of tools to our
    names.

    Raises:
        ModelError: kind `bad_reply` if the reading has no reply, or the kind that the finish reason
            says where the provider broke the answer off.
    """
    word = reading.provider_stop
    if (broken := failure_of(word)) is not None:
        message = f"The provider broke its answer off and gives {word!r} as the finish reason."
        raise _error(broken, message, reading, request_id)
    try:
        blocks = reading.blocks(model=request.model)
    except (ValueError, TypeError, LookupError) as error:
        raise unusable(reading, request_id, f"a block is malformed: {error}") from error
    message = Message(role="assistant", blocks=tuple(_renamed(block, names) for block in blocks))
    stop = reading.stop_reason
    untold = (
        f"The provider ended its answer with {word!r}, which is unknown here: it was taken whole."
    )
    return ModelReply(
        message=message,
        stop_reason=stop or ("tool_use" if message.tool_uses else "end_turn"),
        usage=reading.used(),
        confirmed=reading.usage_told,
        model=reading.model or request.model,
        request_id=request_id,
        cut_call=names.get(reading.cut_call, reading.cut_call),
        notes=() if stop else (untold,),
    )


def _renamed(block: Block, names: Mapping[str, str]) -> Block:
    if not isinstance(block, ToolUseBlock):
        return block
    return block.model_copy(update={"name": names.get(block.name, block.name)})


def call_error(
    error: Exception,
    reading: Account | None,
    client: ClientErrors,
    *,
    request_id: str | None,
    streaming: bool,
) -> ModelError:
    """The error of an exception, with the usage that the reading had by then."""
    return ModelError(
        facts_of(
            error,
            client,
            usage=reading.used() if reading else Usage(),
            confirmed=reading is not None and reading.usage_told,
            request_id=request_id,
            streaming=streaming,
        )
    )


def unusable(reading: Account, request_id: str | None, why: str) -> ModelError:
    """The error of an answer that cannot be used."""
    message = f"The provider's answer cannot be used: {why}."
    return _error("bad_reply", message, reading, request_id)


def _error(
    kind: ModelErrorKind, message: str, reading: Account, request_id: str | None
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
