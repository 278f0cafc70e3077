"""The official `openai` client behind the port `ModelClient`: one streamed attempt at a time.

Waiting and retries belong to Temporal, as for the Messages API. If a compatible server refuses a
call, which costs nothing, the call is made again without the features that it may not know.
"""

import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import combinations

import httpx2
import openai
from openai import AsyncOpenAI, AsyncStream, DefaultAsyncHttpxClient
from pydantic import JsonValue

from perdure.adapters.llm.answer_bounds import bounded
from perdure.adapters.llm.call_failures import (
    CONNECT_TIMEOUT_S,
    COUNT_TIMEOUT_S,
    READ_TIMEOUT_S,
    SaidError,
    unmade_is_unavailable,
)
from perdure.adapters.llm.conversation import check_request, names_back
from perdure.adapters.llm.error_kinds import unsent_error
from perdure.adapters.llm.openai_dialects import chat, responses
from perdure.adapters.llm.openai_dialects.chat import Body, ChatReading, chat_body
from perdure.adapters.llm.openai_dialects.responses import ResponsesReading, responses_body
from perdure.adapters.llm.openai_dialects.server import (
    FEATURES,
    INSTEAD,
    NOT_STREAMED,
    NOT_TAKEN,
    REFUSALS,
    SDK,
    Feature,
    Server,
)
from perdure.adapters.llm.stream_answer import (
    Reading,
    call_error,
    media_of,
    read_answer,
    reply_of,
    unusable,
)
from perdure.domain.foundation.tokens import estimate
from perdure.domain.llm.errors import ModelError
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest
from perdure.domain.llm.transcript import Message, message_tokens
from perdure.domain.llm.usage import Usage
from perdure.domain.ports import UsageSoFar, ignore_usage
from perdure.event_log import get_logger

# Nothing of such an answer comes before its last word, so that a wait for the next bytes is no sign
# of a lost connection. The call's own limit ends it.
WHOLE_ANSWER = httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S)

_log = get_logger(__name__)


class OpenAIModel:
    """All models of one server.

    Args:
        server: where and how it is reached.
        cards: the card of a model.
        transport: replaces the network in tests.
    """

    def __init__(
        self,
        server: Server,
        *,
        cards: Callable[[str], ModelProfile],
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._server = server
        self._sdk = replace(SDK, key=server.key)
        self._cards = cards
        self._transport = transport
        self._lacks: frozenset[Feature] = server.lacks
        self._client: AsyncOpenAI | None = None

    async def card(self, model: str) -> ModelProfile:
        return self._cards(model)

    async def count(self, request: ModelRequest) -> int | None:
        """The prompt's tokens by the provider's own count, free of charge; None on any failure."""
        if self._server.dialect != "responses":
            return None
        try:
            body = responses.counted_part(self._body(request, frozenset()))
            options = {"timeout": COUNT_TIMEOUT_S}
            counted = await self._connected().post(
                responses.COUNT_PATH,
                body=body,
                cast_to=dict[str, JsonValue],
                options=options,  # pyright: ignore[reportArgumentType]  (a TypedDict of the SDK)
            )
            tokens = counted.get("input_tokens")
            return tokens if isinstance(tokens, int) else None
        except (ModelError, openai.OpenAIError, httpx2.HTTPError):
            return None
        except (ValueError, TypeError, AttributeError):  # an answer without a count
            return None

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = ignore_usage,
    ) -> ModelReply:
        """Make one streamed attempt."""
        check_request(request)
        try:
            return await self._attempt(request, self._lacks, on_text, on_answer)
        except ModelError as error:
            if error.facts.provider_code in REFUSALS:
                return _refusal(request, error)
            for less in self._without(request, error):
                with contextlib.suppress(_NotTaken):
                    return await self._attempt(request, less, on_text, on_answer, probing=True)
            # The first refusal, and not that of a probe, is about what was asked.
            raise self._judged(request, error) from error.__cause__

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _body(self, request: ModelRequest, lacks: frozenset[Feature]) -> Body:
        name = self._server.wire_name(request.model)
        if self._server.dialect == "responses":
            return responses_body(request, model=name, card=self._cards(request.model))
        return chat_body(
            request,
            model=name,
            json_schema="json_schema" not in lacks,
            streaming="streaming" not in lacks,
        )

    async def _attempt(
        self,
        request: ModelRequest,
        lacks: frozenset[Feature],
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None],
        *,
        probing: bool = False,
    ) -> ModelReply:
        names = names_back(tool.name for tool in request.tools)
        body = self._body(request, lacks)
        chats = self._server.dialect == "chat"
        reading: Reading[object] = ChatReading(request) if chats else ResponsesReading(request)
        path = chat.PATH if chats else responses.PATH
        streams = "stream" in body
        try:
            if streams:
                async with self._opened(path, body) as stream:
                    request_id = stream.response.headers.get(SDK.request_id)
                    # Once an answer begins, the server has taken the request, however it ends.
                    self._learn(lacks)
                    on_answer(reading.used)
                    if media_of(stream.response) == "application/json":
                        # The server does not know `stream`: its answer has come as a whole.
                        await _arrived(stream.response, reading)
                        _take(stream.response, reading, on_text, begun=True)
                    else:
                        cure = NOT_STREAMED if chats else ""
                        await read_answer(stream, reading, SDK, on_text, cure=cure)
            else:
                request_id = await self._whole(path, body, reading, on_text)
                self._learn(lacks)
        except ModelError as error:
            if probing and _not_taken(error):
                raise _NotTaken from error
            raise
        reply = reply_of(request, reading, request_id, names=names)
        told = [f"{self._server.title} {INSTEAD[one]}." for one in _used(request, lacks)]
        return reply.model_copy(update={"notes": (*told, *reply.notes)})

    async def _whole(
        self, path: str, body: Body, reading: Reading[object], on_text: Callable[[str], None]
    ) -> str | None:
        """Read an answer that is not streamed; returns the provider's id of the request."""
        try:
            answer = await self._connected().post(
                path,
                body=body,
                cast_to=httpx2.Response,
                options={"timeout": WHOLE_ANSWER},
            )
        except (openai.OpenAIError, httpx2.HTTPError, TypeError, ValueError) as error:
            raise call_error(error, reading, self._sdk, request_id=None, streaming=False) from error
        return _take(answer, reading, on_text, begun=False)

    @asynccontextmanager
    async def _opened(self, path: str, body: Body) -> AsyncGenerator[AsyncStream[object]]:
        client = self._connected()
        try:
            # As plain data, not the SDK's event types: servers leave out fields of these.
            stream = await client.post(
                path, body=body, cast_to=object, stream=True, stream_cls=AsyncStream[object]
            )
        except (openai.OpenAIError, httpx2.HTTPError, TypeError, ValueError) as error:
            raise call_error(error, None, self._sdk, request_id=None, streaming=False) from error
        try:
            yield stream
        finally:
            await stream.close()

    def _connected(self) -> AsyncOpenAI:
        """The SDK's client, made at first use so that it belongs to the running event loop."""
        if not self._server.api_key:
            raise unsent_error(self._server.no_key, kind="authentication")
        if self._client is None:
            with unmade_is_unavailable():
                self._client = self._made(self._server.api_key)
        return self._client

    def _made(self, key: str) -> AsyncOpenAI:
        timeout = httpx2.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        http = (
            DefaultAsyncHttpxClient(timeout=timeout)
            if self._transport is None
            else httpx2.AsyncClient(transport=self._transport, timeout=timeout)
        )
        return AsyncOpenAI(
            api_key=key,
            base_url=self._server.base_url,
            # Set, so that OPENAI_ORG_ID and OPENAI_PROJECT_ID have no effect.
            organization="",
            project="",
            max_retries=0,  # Temporal retries, and the journal books each attempt
            timeout=timeout,
            http_client=bounded(http),
        )

    def _without(self, request: ModelRequest, error: ModelError) -> Iterator[frozenset[Feature]]:
        """The sets of features to leave out of a refused call; none that the settings state."""
        if self._server.dialect != "chat" or not _not_taken(error):
            return
        open_features: list[Feature] = [
            one
            for one in FEATURES
            if one not in self._lacks | self._server.has
            and (one != "json_schema" or request.json_schema is not None)
        ]
        # The fewest first, so that none is given up without need.
        for size in range(1, len(open_features) + 1):
            for less in combinations(open_features, size):
                yield self._lacks | frozenset(less)

    def _learn(self, lacks: frozenset[Feature]) -> None:
        """Remember which features a server does not support, and log them."""
        for one in sorted(lacks - self._lacks):
            _log.warning("model_server_lacks", server=self._server.title, means=INSTEAD[one])
        # Added, because a call that was sent before others have learned more may be answered later.
        self._lacks |= lacks

    def _judged(self, request: ModelRequest, error: ModelError) -> ModelError:
        """Tell a prompt that is too long from a bad request, if the server has no code for it.

        Error texts are not parsed; our own count is compared with the model's window.
        """
        facts = error.facts
        if facts.status != 400 or facts.kind != "bad_request":
            return error
        said = sum(message_tokens(message).total for message in request.messages)
        fixed = estimate(request.system).total
        if said + fixed + request.max_tokens < self._cards(request.model).window:
            return error
        return ModelError(facts.model_copy(update={"kind": "context_overflow"}))


async def _arrived(response: httpx2.Response, reading: Reading[object]) -> None:
    """Wait for the rest of an answer; raises `ModelError` if it breaks off."""
    try:
        await response.aread()
    except httpx2.HTTPError as error:
        request_id = response.headers.get(SDK.request_id)
        raise call_error(error, reading, SDK, request_id=request_id, streaming=True) from error


def _take(
    answer: httpx2.Response,
    reading: Reading[object],
    on_text: Callable[[str], None],
    *,
    begun: bool,
) -> str | None:
    """Read an answer that came as a whole; returns the provider's id of the request.

    `begun`: a stream was asked for, so that an error in it is one of an answer under way.
    """
    request_id: str | None = answer.headers.get(SDK.request_id)
    try:
        text = reading.feed(answer.json())
    except (SaidError, TypeError, ValueError, LookupError) as error:
        raise call_error(error, reading, SDK, request_id=request_id, streaming=begun) from error
    if reading.provider_stop is None:
        raise unusable(reading, request_id, "it does not say why it ended")
    if text:
        on_text(text)
    return request_id


class _NotTaken(Exception):
    """A call with fewer features was refused as well."""


def _not_taken(error: ModelError) -> bool:
    facts = error.facts
    # Whoever has begun to answer has taken the request, and the words may have to be paid for.
    refused_whole = facts.sent and facts.usage == Usage()
    return refused_whole and facts.status in NOT_TAKEN and facts.kind in {"bad_request", "server"}


def _used(request: ModelRequest, lacks: frozenset[Feature]) -> list[Feature]:
    """The missing features that this call would have used; streaming changes no reply."""
    return [
        one for one in FEATURES if one in lacks and one == "json_schema" and request.json_schema
    ]


def _refusal(request: ModelRequest, error: ModelError) -> ModelReply:
    facts = error.facts
    return ModelReply(
        message=Message(role="assistant", blocks=()),
        stop_reason="refusal",
        usage=facts.usage,
        confirmed=facts.confirmed,
        model=request.model,
        request_id=facts.request_id,
    )
