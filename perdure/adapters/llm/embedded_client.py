"""The packaged small model, called with the same Messages client as Claude.

Its server speaks the Messages API with gaps, which `EmbeddedTransport` closes. In requests,
structured output becomes a forced tool, and a forced tool becomes a prefilled assistant turn, after
which the engine's grammar allows nothing but the call. In answers, structured output is turned back
into text, and errors get the shape and the request id that the official client expects.

The model cannot decide by itself whether to call a tool, so such calls are refused. `/v1/messages`
uses the temperature and ignores the seed. At temperature 0 equal prompts give equal text, as long
as no other calls run at the same time.
"""

import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2
from pydantic import JsonValue, TypeAdapter

from perdure.adapters.llm.embedded_facts import CARD, LOCAL_NAME, MODEL_NAME
from perdure.adapters.llm.error_kinds import unsent_error
from perdure.adapters.llm.messages import MessagesModel
from perdure.adapters.llm.request import EMBEDDED
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest
from perdure.domain.ports import UsageSoFar, ignore_usage

PREFILL = "<tool_call>\n"
OUTPUT_TOOL = "json_output"
DATA = b"data: "
EVENT = b"event: "
# What an answer may begin with: its first event, or the news that there is none.
BEGINNINGS = {EVENT + b"message_start", EVENT + b"error", EVENT + b"ping"}
EVENTS = "text/event-stream"
COUNT = "/v1/messages/count_tokens"
PATHS = ("/v1/messages", COUNT)
JSON = {"content-type": "application/json"}

Body = dict[str, JsonValue]
_BODY = TypeAdapter(Body)


class EmbeddedTransport(httpx2.AsyncBaseTransport):
    """The transport of the official client; it rewrites messages and counts, both ways."""

    def __init__(self, inner: httpx2.AsyncBaseTransport | None = None) -> None:
        # The engine sometimes closes a connection that it has just kept alive, so none is reused.
        fresh = httpx2.Limits(max_keepalive_connections=0)
        # A proxy of the environment must not get what is meant for loopback.
        self._inner = inner or httpx2.AsyncHTTPTransport(limits=fresh, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        prepared, as_text = await _prepared(request)
        response = await self._inner.handle_async_request(prepared)
        response.headers["request-id"] = f"req_local_{uuid.uuid4().hex[:20]}"
        if response.status_code >= 400:
            return await _as_error(response)
        stream, kind = response.stream, response.headers.get("content-type", "")
        if not kind.startswith(EVENTS) or not isinstance(stream, httpx2.AsyncByteStream):
            return response
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_MendedStream(stream, as_text=as_text, head=lambda: self._head(prepared)),
            extensions=response.extensions,
        )

    async def _head(self, asked: httpx2.Request) -> bytes:
        """The event that begins an answer to this request; empty if it cannot be made."""
        content = await asked.aread()
        counted = await self._inner.handle_async_request(
            httpx2.Request("POST", asked.url.join(COUNT), headers=JSON, content=content)
        )
        answer = await counted.aread()
        await counted.aclose()
        if counted.is_error:
            return b""  # then the answer is told as one that cannot be read
        usage = _BODY.validate_json(answer)
        message = {
            "id": f"msg_local_{uuid.uuid4().hex[:20]}",
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": MODEL_NAME,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": usage["input_tokens"], "output_tokens": 0},
        }
        event = json.dumps({"type": "message_start", "message": message}).encode()
        return b"event: message_start\n" + DATA + event + b"\n\n"

    async def aclose(self) -> None:
        await self._inner.aclose()


class _MendedStream(httpx2.AsyncByteStream):
    """An answer's events as the provider sends them.

    The engine leaves the first one out if the answer's first token is a part of a character, as
    it is in most languages that are not written in Latin letters.

    Args:
        inner: the engine's stream.
        as_text: the events of a forced tool call become text events.
        head: the event to begin with where there is none.
    """

    def __init__(
        self,
        inner: httpx2.AsyncByteStream,
        *,
        as_text: bool,
        head: Callable[[], Awaitable[bytes]],
    ) -> None:
        self._inner = inner
        self._line = call_as_text if as_text else bytes
        self._head = head

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest, begun = b"", False
        async for chunk in self._inner:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if not begun and line.startswith(EVENT):
                    begun = True
                    if line not in BEGINNINGS:
                        yield await self._head()
                yield self._line(line) + b"\n"
        if rest:
            yield self._line(rest)

    async def aclose(self) -> None:
        await self._inner.aclose()


def force(body: Body) -> tuple[Body, bool]:
    """The body as the engine needs it, and whether its forced call stands for structured output."""
    config = body.pop("output_config", None)
    wanted = config.get("format") if isinstance(config, dict) else None
    choice = body.get("tool_choice")
    if isinstance(wanted, dict):
        body["tools"] = [
            {
                "name": OUTPUT_TOOL,
                "description": "Write the answer.",
                "input_schema": wanted["schema"],
            }
        ]
        choice = {"type": "tool", "name": OUTPUT_TOOL}
    if not isinstance(choice, dict) or choice.get("type") not in {"any", "tool"}:
        return body, False
    # The engine ignores the name in `tool_choice`, so only that tool is offered.
    tools, messages = body.get("tools"), body.get("messages")
    if choice["type"] == "tool" and isinstance(tools, list):
        body["tools"] = [
            tool for tool in tools if isinstance(tool, dict) and tool["name"] == choice["name"]
        ]
    if isinstance(messages, list):
        body["messages"] = [*messages, {"role": "assistant", "content": PREFILL}]
    body["tool_choice"] = {"type": "any"}
    return body, isinstance(wanted, dict)


def call_as_text(line: bytes) -> bytes:
    """One line of the event stream, with a tool call's events turned into text events."""
    if not line.startswith(DATA + b"{"):
        return line
    event = _BODY.validate_json(line.removeprefix(DATA))
    block, delta = event.get("content_block"), event.get("delta")
    if isinstance(block, dict) and block.get("type") == "tool_use":
        event["content_block"] = {"type": "text", "text": ""}
    if isinstance(delta, dict):
        if delta.get("type") == "input_json_delta":
            event["delta"] = {"type": "text_delta", "text": delta["partial_json"]}
        if delta.get("stop_reason") == "tool_use":
            delta["stop_reason"] = "end_turn"
    return DATA + json.dumps(event).encode()


async def _prepared(request: httpx2.Request) -> tuple[httpx2.Request, bool]:
    content = await request.aread()
    if request.method != "POST" or not request.url.path.endswith(PATHS):
        return request, False
    body, as_text = force(_BODY.validate_json(content))
    headers = [pair for pair in request.headers.raw if pair[0].lower() != b"content-length"]
    prepared = httpx2.Request(
        "POST",
        request.url,
        headers=headers,
        content=json.dumps(body).encode(),
        extensions=request.extensions,
    )
    return prepared, as_text


async def _as_error(response: httpx2.Response) -> httpx2.Response:
    """The engine's error in the provider's shape."""
    content = await response.aread()
    await response.aclose()
    try:
        said = _BODY.validate_json(content).get("error")
    except ValueError:
        said = None
    error = said if isinstance(said, dict) else {"message": content.decode(errors="replace")}
    named = {"type": error.get("type", "api_error"), "message": error.get("message", "")}
    return httpx2.Response(
        response.status_code,
        headers={"request-id": response.headers["request-id"]},
        json={"type": "error", "error": named},
    )


NAMES = frozenset({LOCAL_NAME, MODEL_NAME})
NO_KEY_NEEDED = "local"


class EmbeddedModel:
    """`local`, served by `embedded_server`.

    Args:
        url: where the server answers, on loopback; None if it was not started.
        inner: replaces the network in tests.
    """

    def __init__(self, *, url: str | None, inner: httpx2.AsyncBaseTransport | None = None) -> None:
        self._client = _client(url, inner) if url else None

    async def card(self, model: str) -> ModelProfile:
        """Its profile: price 0, a small window, no free choice of tools, not usable as a judge."""
        if model not in NAMES:
            raise unsent_error(f"{model} is not the embedded model.", kind="unknown_model")
        return CARD

    async def count(self, request: ModelRequest) -> int | None:
        """The server's exact count, with the frame of forced calls; None if it is not running."""
        return await self._client.count(_fitted(request)) if self._client else None

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = ignore_usage,
    ) -> ModelReply:
        """Make one streamed attempt; the reply is at most `max_output` tokens long."""
        if not self._client:
            raise unsent_error(
                "The embedded model is not running. Start it with `perdure up`, "
                "or install it first with `perdure setup`.",
                kind="unavailable",
            )
        return await self._client.call(_fitted(request), on_text=on_text, on_answer=on_answer)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client:
            await self._client.aclose()


def _client(url: str, inner: httpx2.AsyncBaseTransport | None) -> MessagesModel:
    return MessagesModel(
        base_url=url,
        api_key=NO_KEY_NEEDED,
        cards=lambda _: CARD,
        dialect=EMBEDDED,
        transport=EmbeddedTransport(inner),
    )


def _fitted(request: ModelRequest) -> ModelRequest:
    # The engine does not stop a cancelled reply at once; a low limit bounds how long it goes on.
    limit = min(request.max_tokens, CARD.max_output)
    return request.model_copy(update={"model": MODEL_NAME, "max_tokens": limit})
