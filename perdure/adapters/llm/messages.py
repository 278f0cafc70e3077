"""The Messages API behind the port `ModelClient`: one streamed attempt, without retries.

Waiting and retries belong to Temporal, heartbeats to the caller. This module streams, closes the
stream when it is cancelled, and turns every failure into facts.
"""

import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anthropic
import httpx2
from anthropic import AsyncAnthropic, AsyncStream, DefaultAsyncHttpxClient
from anthropic.types import RawMessageStreamEvent

from perdure.adapters.llm.answer_bounds import bounded
from perdure.adapters.llm.call_failures import (
    CONNECT_TIMEOUT_S,
    COUNT_TIMEOUT_S,
    MESSAGE_CHARACTERS,
    READ_TIMEOUT_S,
    ClientErrors,
    ProviderError,
    unmade_is_unavailable,
)
from perdure.adapters.llm.clouds import CLOUDS, maker
from perdure.adapters.llm.error_kinds import unsent_error
from perdure.adapters.llm.pricing import unknown_card
from perdure.adapters.llm.request import CLAUDE, Dialect, WireRequest, wire_request
from perdure.adapters.llm.stream_answer import call_error, read_answer, reply_of
from perdure.adapters.llm.stream_reader import StreamState
from perdure.adapters.logging.redacting import without_secrets
from perdure.domain.llm.errors import ModelError
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest
from perdure.domain.ports import UsageSoFar, ignore_usage

if TYPE_CHECKING:
    from perdure.adapters.llm.clouds import AnyClient

NO_KEY = (
    "No API key for Claude is set, so nothing was sent. "
    "Set ANTHROPIC_API_KEY in the environment of the process that runs the worker, and start it "
    "again, or use the model `local`."
)


def _told(error: Exception) -> ProviderError | None:
    if not isinstance(error, anthropic.APIStatusError):
        return None
    return ProviderError(
        status=error.status_code,
        message=error.api_message or error.message,
        # The SDK declares a closed set of types, but providers send others, or none.
        type=str(error.type) if error.type else None,
        code=error.error_code,
        request_id=error.request_id,
        headers=error.response.headers,
    )


SDK = ClientErrors(
    told=_told,
    timeouts=anthropic.APITimeoutError,
    connections=anthropic.APIConnectionError,
    failures=anthropic.AnthropicError,
    request_id="request-id",
)


class MessagesModel:
    """All models that one Messages API serves.

    Args:
        base_url: where the API answers; always set, so that ANTHROPIC_BASE_URL has no effect.
        api_key: None makes every call fail as `authentication` before anything is sent.
        cards: the profile of a model, or None if the price book does not know it.
        auth_token: a bearer token instead of a key.
        dialect: what this provider accepts.
        prefix: the prefix of its models' names here, which is not sent.
        cloud: the cloud whose client and credentials replace address and key.
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
        prefix: str = "",
        cloud: str = "",
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._base_url = base_url
        self._api_key = api_key
        self._auth_token = None if api_key else auth_token
        self._cards = cards
        self._dialect = dialect
        self._prefix = prefix
        self._cloud = cloud
        self._transport = transport
        self._client: AnyClient | None = None

    async def card(self, model: str) -> ModelProfile:
        """Facts about the model; without a price if the price book does not know it."""
        return self._cards(model) or unknown_card(model)

    async def count(self, request: ModelRequest) -> int | None:
        """The prompt's tokens by the provider's own count, free of charge; None on any failure."""
        try:
            wire = wire_request(request, self._dialect)
            counted = await self._connected().messages.count_tokens(
                model=wire.model.removeprefix(self._prefix),
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
        except (ValueError, TypeError, AttributeError):  # an answer without a count
            return None
        except Exception:
            # Each cloud's library has exceptions of its own for credentials. The call that follows
            # reports what is wrong with them.
            if not self._cloud:
                raise
            return None

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = ignore_usage,
    ) -> ModelReply:
        """Make one streamed attempt."""
        wire = wire_request(request, self._dialect)
        reading = StreamState()
        request_id: str | None = None
        try:
            async with self._opened(wire) as stream:
                request_id = stream.response.headers.get(SDK.request_id)
                # Before anything is read: an attempt that is lost is booked by what it had used.
                on_answer(reading.used)
                await read_answer(stream, reading, SDK, on_text)
        except ModelError as error:
            raise await self._judged(request, error) from error.__cause__
        return reply_of(request, reading, request_id, names=wire.names)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _connected(self) -> "AnyClient":
        """The SDK's client, made at first use so that it belongs to the running event loop."""
        if not (self._api_key or self._auth_token or self._cloud):
            raise unsent_error(NO_KEY, kind="authentication")
        if self._client is None:
            with unmade_is_unavailable():
                self._client = self._made()
        return self._client

    def _made(self) -> "AnyClient":
        timeout = httpx2.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        http = self._http(timeout)
        if self._cloud:
            return self._of_cloud(timeout, http)
        return AsyncAnthropic(
            api_key=self._api_key,
            auth_token=self._auth_token,
            base_url=self._base_url,
            max_retries=0,  # Temporal retries, and the journal books each attempt
            timeout=timeout,
            http_client=http,
        )

    def _http(self, timeout: httpx2.Timeout) -> httpx2.AsyncClient:
        if self._transport is None:
            return bounded(DefaultAsyncHttpxClient(timeout=timeout))
        return bounded(httpx2.AsyncClient(transport=self._transport, timeout=timeout))

    def _of_cloud(self, timeout: httpx2.Timeout, http: httpx2.AsyncClient) -> "AnyClient":
        try:
            return maker(self._cloud)(timeout, http)
        except Exception as error:  # each cloud's library has exceptions of its own
            raise self._not_let_in(error) from error

    def _not_let_in(self, error: Exception) -> ModelError:
        cloud = CLOUDS[self._cloud]
        why = without_secrets(error)[:MESSAGE_CHARACTERS].rstrip(".") or type(error).__name__
        return unsent_error(
            f"{cloud.title} cannot be called, so nothing was sent: {why}. {cloud.credentials}.",
            kind="authentication",
        )

    @asynccontextmanager
    async def _opened(
        self, wire: WireRequest
    ) -> AsyncGenerator[AsyncStream[RawMessageStreamEvent]]:
        client = self._connected()
        # `perdure` itself tells when models retire (`access`); the SDK would warn at every call.
        warnings.filterwarnings("ignore", r"The model .* is deprecated", DeprecationWarning)
        try:
            stream = await client.messages.create(
                model=wire.model.removeprefix(self._prefix),
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
            raise call_error(error, None, SDK, request_id=None, streaming=False) from error
        except Exception as error:
            # The clients of clouds look for credentials only when they sign a request.
            raise self._not_let_in(error) if self._cloud else error from error
        try:
            yield stream
        finally:
            await stream.close()

    async def _judged(self, request: ModelRequest, error: ModelError) -> ModelError:
        """Tell a prompt that is too long from a bad request.

        The API has no error type for it, and error texts are not parsed. So the provider's own
        token count is compared with the model's window.
        """
        facts = error.facts
        if facts.status != 400 or facts.kind != "bad_request":
            return error
        counted = await self.count(request)
        window = (await self.card(request.model)).window
        if counted is None or counted < window:
            return error
        return ModelError(facts.model_copy(update={"kind": "context_overflow"}))
