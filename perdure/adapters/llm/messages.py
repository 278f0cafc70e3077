"""The Messages API behind the port `ModelClient`: one streamed attempt, no retries of its own.

Waiting and trying again belong to Temporal; heartbeats belong to the caller's timer. This module
only streams, closes the stream when it is cancelled, and turns every failure into facts.
"""

import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anthropic
import httpx2
from anthropic import AsyncAnthropic, AsyncStream
from anthropic.types import RawMessageStreamEvent

from perdure.adapters.llm.error_kinds import refused
from perdure.adapters.llm.request import CLAUDE, Dialect, WireRequest, wire_request
from perdure.adapters.llm.stream_answer import failed, read_answer, reply_of
from perdure.adapters.llm.stream_reader import StreamState
from perdure.domain.llm.errors import ModelError
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest
from perdure.domain.ports import UsageSoFar, unheard

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 300.0
# Counting is free and only sharpens the estimate: it may fail, and must not hold up the call.
COUNT_TIMEOUT_S = 10.0
NO_KEY = (
    "No API key for Claude is set, so nothing was sent. "
    "Set ANTHROPIC_API_KEY for the worker, or use the model `local`."
)


class MessagesModel:
    """All models that one Messages API serves.

    Args:
        base_url: where the API answers; always explicit, so that no variable redirects it.
        api_key: None makes every call fail as `authentication` before anything is sent.
        cards: the card of a model, or None where the price book does not know it.
        auth_token: a bearer token instead of a key.
        dialect: what this provider understands.
        transport: replaces the network, for the embedded model and for tests.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str | None,
        cards: Callable[[str], ModelProfile | None],
        auth_token: str | None = None,
        dialect: Dialect = CLAUDE,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._base_url = base_url
        self._api_key = api_key
        self._auth_token = None if api_key else auth_token
        self._cards = cards
        self._dialect = dialect
        self._transport = transport
        self._client: AsyncAnthropic | None = None

    async def card(self, model: str) -> ModelProfile:
        """Facts about the model; one that the price book does not know has no price."""
        return self._cards(model) or ModelProfile(name=model, price=None, sampling=False)

    async def count(self, request: ModelRequest) -> int | None:
        """The prompt's tokens by the provider's own count, free of charge; None on any failure."""
        try:
            wire = wire_request(request, self._dialect)
            counted = await self._connected().messages.count_tokens(
                model=wire.model,
                messages=wire.messages,
                system=wire.system,
                tools=wire.tools,
                tool_choice=wire.tool_choice,
                output_config=wire.output_config,
                thinking=wire.thinking,
                timeout=COUNT_TIMEOUT_S,
            )
            return int(counted.input_tokens)
        except (ModelError, anthropic.AnthropicError, httpx2.HTTPError):
            return None
        except (ValueError, TypeError, AttributeError):  # an answer that is no count
            return None

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = unheard,
    ) -> ModelReply:
        """Make one streamed attempt."""
        wire = wire_request(request, self._dialect)
        reading = StreamState()
        request_id: str | None = None
        try:
            async with self._opened(wire) as stream:
                request_id = stream.response.headers.get("request-id")
                on_answer(reading.used)
                await read_answer(stream, reading, on_text)
        except ModelError as error:
            raise await self._judged(request, error) from error.__cause__
        return reply_of(request, wire, reading, request_id)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _connected(self) -> AsyncAnthropic:
        """The SDK's client, made at first use so that it belongs to the running event loop."""
        if not (self._api_key or self._auth_token):
            raise refused(NO_KEY, kind="authentication")
        if self._client is None:
            timeout = httpx2.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
            self._client = AsyncAnthropic(
                api_key=self._api_key,
                auth_token=self._auth_token,
                base_url=self._base_url,
                max_retries=0,
                timeout=timeout,
                http_client=httpx2.AsyncClient(transport=self._transport, timeout=timeout)
                if self._transport
                else None,
            )
        return self._client

    @asynccontextmanager
    async def _opened(
        self, wire: WireRequest
    ) -> AsyncGenerator[AsyncStream[RawMessageStreamEvent]]:
        client = self._connected()
        # A model's end of life is the price book's and the operator's affair, not a warning a call.
        warnings.filterwarnings("ignore", r"The model .* is deprecated", DeprecationWarning)
        try:
            stream = await client.messages.create(
                model=wire.model,
                max_tokens=wire.max_tokens,
                messages=wire.messages,
                system=wire.system,
                tools=wire.tools,
                tool_choice=wire.tool_choice,
                output_config=wire.output_config,
                thinking=wire.thinking,
                extra_body=wire.extra_body,
                stream=True,
            )
        except (anthropic.AnthropicError, httpx2.HTTPError, TypeError, ValueError) as error:
            raise failed(error, StreamState(), request_id=None, streaming=False) from error
        try:
            yield stream
        finally:
            await stream.close()

    async def _judged(self, request: ModelRequest, error: ModelError) -> ModelError:
        """Tell an overlong prompt from a bad request.

        The API has no error type for it, and words in messages are no facts; its own token count
        against the model's window is.
        """
        facts = error.facts
        if facts.status != 400 or facts.kind != "bad_request":
            return error
        counted = await self.count(request)
        window = (await self.card(request.model)).window
        if counted is None or counted < window:
            return error
        return ModelError(facts.model_copy(update={"kind": "context_overflow"}))
