"""Requests, event streams and in-memory stores for the tests of model clients."""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import httpx2

from perdure.adapters.llm.messages import MessagesModel
from perdure.adapters.llm.scripted import ScriptedModel
from perdure.domain.foundation.errors import NotFound
from perdure.domain.llm.errors import ModelError
from perdure.domain.llm.requests import CallContext, ModelReply, ModelRequest, ToolOffer
from perdure.domain.llm.transcript import Message, ToolResultBlock, ToolUseBlock, user_message
from perdure.domain.ports import BlobStore, ModelClient, RecordStore

CLAUDE = "claude-sonnet-4-5"
READ_TOOL = ToolOffer(
    name="fs.read",
    description="Read a file.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string", "maxLength": 30}},
        "required": ["path"],
    },
)
SCORE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"enum": [0, 1, 2, 3]}, "gap": {"type": "string", "maxLength": 40}},
    "required": ["score", "gap"],
    "additionalProperties": False,
}


def request(model: str = CLAUDE, text: str = "Say hello.", **changes: Any) -> ModelRequest:
    context: dict[str, Any] = {"run": "run-1", "role": "executor", "iteration": 1, "key": "run/1"}
    context |= {name: changes.pop(name) for name in CallContext.model_fields if name in changes}
    values: dict[str, Any] = {
        "model": model,
        "system": "Be brief.",
        "messages": (user_message(text),),
        "max_tokens": 100,
        "context": CallContext(**context),
    }
    return ModelRequest(**(values | changes))


def call_message(*ids: str) -> Message:
    blocks = tuple(
        ToolUseBlock(type="tool_use", id=id_, name="fs.read", arguments={"path": id_})
        for id_ in ids
    )
    return Message(role="assistant", blocks=blocks)


def result_message(*ids: str, outcome: Any = "ok", text: str = "content") -> Message:
    blocks = tuple(
        ToolResultBlock(type="tool_result", call_id=id_, name="fs.read", outcome=outcome, text=text)
        for id_ in ids
    )
    return Message(role="user", blocks=blocks)


async def say(client: ModelClient, wanted: ModelRequest) -> tuple[ModelReply, list[str]]:
    """The reply and the text pieces that came on the way."""
    pieces: list[str] = []
    return await client.call(wanted, on_text=pieces.append), pieces


async def fails(client: ModelClient, wanted: ModelRequest) -> Any:
    """The facts of the failure that a call must end in."""
    try:
        reply, _ = await say(client, wanted)
    except ModelError as error:
        return error.facts
    raise AssertionError(f"no error, but {reply}")


# Event streams


def sse(*events: dict[str, Any]) -> bytes:
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return "".join(lines).encode()


def start(**usage: Any) -> dict[str, Any]:
    return {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5-20250929",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 1, **usage},
        },
    }


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text_block(index: int, *pieces: str) -> list[dict[str, Any]]:
    deltas = ({"type": "text_delta", "text": piece} for piece in pieces)
    return block(index, {"type": "text", "text": ""}, *deltas)


def tool_block(index: int, *pieces: str, name: str = "fs__read") -> list[dict[str, Any]]:
    deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
    content = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
    return block(index, content, *deltas)


def end(reason: Any = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    return [
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 7, **usage},
        },
        {"type": "message_stop"},
    ]


def hello(reason: Any = "end_turn") -> list[dict[str, Any]]:
    return [start(), *text_block(0, "Hel", "lo"), *end(reason)]


class Broken(httpx2.AsyncByteStream):
    """Bytes, and then an error of the transport."""

    def __init__(self, content: bytes, error: Exception) -> None:
        self._content = content
        self._error = error
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content
        raise self._error

    async def aclose(self) -> None:
        self.closed = True


def events(*items: dict[str, Any], **headers: str) -> httpx2.Response:
    return stream_of(sse(*items), **headers)


def stream_of(content: bytes | httpx2.AsyncByteStream, **headers: str) -> httpx2.Response:
    named = {"content-type": "text/event-stream", "request-id": "req_1", **headers}
    if isinstance(content, bytes):
        return httpx2.Response(200, headers=named, content=content)
    return httpx2.Response(200, headers=named, stream=content)


def problem(status: int, kind: str | None, **headers: str) -> httpx2.Response:
    body = {"type": "error", "error": {"type": kind, "message": "no luck"}} if kind else "gateway"
    return httpx2.Response(status, headers={"request-id": "req_1", **headers}, json=body)


Answer = httpx2.Response | Exception | Callable[[httpx2.Request], httpx2.Response]


class Provider:
    """A mocked provider: answers in order (the last one again), and remembers what was asked."""

    def __init__(self, *answers: Answer, count: int | None = None, window: int = 200_000) -> None:
        self._answers = list(answers)
        self._count = count
        self.bodies: list[dict[str, Any]] = []
        self.counted: list[dict[str, Any]] = []
        self.headers: list[httpx2.Headers] = []

    @property
    def transport(self) -> httpx2.AsyncBaseTransport:
        return httpx2.MockTransport(self._handle)

    def client(self, **changes: Any) -> MessagesModel:
        values: dict[str, Any] = {
            "base_url": "https://models.example",
            "api_key": "sk-test",
            "cards": lambda _: None,
            "transport": self.transport,
        }
        return MessagesModel(**(values | changes))

    def _handle(self, asked: httpx2.Request) -> httpx2.Response:
        body = json.loads(asked.content)
        if asked.url.path.endswith("count_tokens"):
            self.counted.append(body)
            if self._count is None:
                return problem(500, "api_error")
            return httpx2.Response(200, json={"input_tokens": self._count})
        self.bodies.append(body)
        self.headers.append(asked.headers)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx2.Response) else answer(asked)


# Stores


class MemoryBlobs:
    def __init__(self, *texts: str) -> None:
        self.texts = {self.address(text): text for text in texts}

    @staticmethod
    def address(text: str) -> str:
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    async def get_text(self, address: str) -> str:
        if address not in self.texts:
            raise NotFound(f"No blob {address}.")
        return self.texts[address]


class MemoryRecords:
    def __init__(self) -> None:
        self.taken: dict[str, dict[int, tuple[str, ...]]] = {}

    async def script_uses(self, run: str, prefix: str) -> dict[int, int]:
        return {
            entry: sum(key.startswith(prefix) for key in keys)
            for entry, keys in self.taken.get(run, {}).items()
        }

    async def script_held(self, run: str, keys: Sequence[str]) -> dict[str, int]:
        taken = sorted(self.taken.get(run, {}).items(), reverse=True)
        return {key: entry for entry, holders in taken for key in holders if key in keys}

    async def take_script_entry(self, run: str, key: str, entry: int) -> None:
        entries = self.taken.setdefault(run, {})
        if key not in entries.get(entry, ()):
            entries[entry] = (*entries.get(entry, ()), key)


def stores(blobs: MemoryBlobs, records: MemoryRecords) -> tuple[BlobStore, RecordStore]:
    """As the ports; scripts need no more of them than these fakes have."""
    return cast("BlobStore", blobs), cast("RecordStore", records)


def scripted(*texts: str) -> ScriptedModel:
    """A scripted model over fresh stores that hold these scripts."""
    return ScriptedModel(*stores(MemoryBlobs(*texts), MemoryRecords()))


def script_name(text: str, label: str = "") -> str:
    return f"scripted:{MemoryBlobs.address(text)}{'#' + label if label else ''}"
