"""The three wire dialects side by side: the same answers and faults, in the words of each."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from perdure.adapters.llm.openai_dialects.client import OpenAIModel
from perdure.adapters.llm.openai_dialects.server import Feature, Server
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.ports import ModelClient
from tests.adapters.llm.support import (
    CLAUDE,
    Answer,
    Provider,
    end,
    sse,
    start,
    stream_of,
    text_block,
    tool_block,
)

RECORDED = Path(__file__).with_name("recorded")
JSON = {"content-type": "application/json"}
Event = dict[str, Any]


def card(name: str, **facts: Any) -> ModelProfile:
    return ModelProfile(name=name, price=None, **facts)


def chat_client(
    provider: Provider,
    *,
    lacks: frozenset[Feature] = frozenset(),
    has: frozenset[Feature] = frozenset(),
    key: str | None = "sk-test",
    **facts: Any,
) -> OpenAIModel:
    server = Server(
        title="The server box",
        prefix="compat:box/",
        base_url="https://box.example/v1",
        api_key=key,
        no_key="Set BOX_KEY.",
        key="BOX_KEY",
        dialect="chat",
        lacks=lacks,
        has=has,
    )
    return OpenAIModel(server, cards=lambda name: card(name, **facts), transport=provider.transport)


def responses_client(
    provider: Provider, *, key: str | None = "sk-test", **facts: Any
) -> OpenAIModel:
    server = Server(
        title="OpenAI",
        prefix="openai:",
        base_url="https://openai.example/v1",
        api_key=key,
        no_key="Set OPENAI_API_KEY.",
        dialect="responses",
    )
    return OpenAIModel(server, cards=lambda name: card(name, **facts), transport=provider.transport)


def lines(events: Sequence[Event], *, named: bool = False, done: bool = False) -> bytes:
    def one(event: Event) -> str:
        head = f"event: {event['type']}\n" if named else ""
        return f"{head}data: {json.dumps(event)}\n\n"

    return ("".join(map(one, events)) + ("data: [DONE]\n\n" if done else "")).encode()


# Chat completions


def chunk(delta: Event | None = None, finish: str | None = None, **more: Any) -> Event:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "model": "box-1", "choices": choices, **more}


def chat_usage(prompt: int = 12, output: int = 7, cached: int = 5) -> Event:
    details = {"cached_tokens": cached}
    usage = {"prompt_tokens": prompt, "completion_tokens": output, "prompt_tokens_details": details}
    return chunk(usage=usage)


def chat_call(
    *pieces: str, index: int = 0, id: str = "call_1", name: str = "fs__read"
) -> list[Event]:
    function = {"name": name, "arguments": ""}
    first = {"index": index, "id": id, "type": "function", "function": function}
    more = ({"index": index, "function": {"arguments": piece}} for piece in pieces)
    return [chunk({"tool_calls": [piece]}) for piece in (first, *more)]


def chat_events(
    pieces: Sequence[str], calls: Sequence[str], stop: str, *, usage: bool = True
) -> list[Event]:
    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"content": piece}) for piece in pieces]
    if calls:
        events += chat_call(*calls)
    return [*events, chunk({}, stop), *([chat_usage()] if usage else [])]


# Responses


def item_events(item: Event, deltas: Sequence[Event], done: Event | None) -> list[Event]:
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    ended = {"type": "response.output_item.done", "output_index": 0, "item": done}
    return [added, *deltas, *([ended] if done is not None else [])]


def message_item(*pieces: str, kind: str = "output_text") -> list[Event]:
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    delta = f"response.{kind}.delta"
    deltas = [{"type": delta, "item_id": "msg_1", "delta": piece} for piece in pieces]
    part = {"type": kind, "refusal" if kind == "refusal" else "text": "".join(pieces)}
    return item_events(item, deltas, {**item, "content": [part]})


def call_item(*pieces: str, whole: bool = True) -> list[Event]:
    item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "fs__read"}
    kind = "response.function_call_arguments.delta"
    deltas = [{"type": kind, "item_id": "fc_1", "delta": piece} for piece in pieces]
    done = {**item, "arguments": "".join(pieces), "status": "completed"}
    return item_events({**item, "arguments": ""}, deltas, done if whole else None)


def reasoning_item() -> list[Event]:
    item = {"id": "rs_1", "type": "reasoning", "summary": []}
    return item_events(item, [], {**item, "encrypted_content": "gAAAA"})


def responses_end(status: str = "completed", *, usage: bool = True, **more: Any) -> Event:
    used = {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 5},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 19,
    }
    response = {"id": "resp_1", "model": "gpt-5-2025-08-07", "status": status, **more}
    return {
        "type": f"response.{status}",
        "response": {**response, **({"usage": used} if usage else {})},
    }


CREATED: Event = {
    "type": "response.created",
    "response": {"id": "resp_1", "model": "gpt-5-2025-08-07", "status": "in_progress"},
}


def responses_events(
    pieces: Sequence[str], calls: Sequence[str], stop: str, *, usage: bool = True
) -> list[Event]:
    items = message_item(*pieces) if pieces else []
    whole = stop != "max_output_tokens"
    items += call_item(*calls, whole=whole) if calls else []
    if stop == "completed":
        return [CREATED, *items, responses_end(usage=usage)]
    details = {"reason": stop}
    return [CREATED, *items, responses_end("incomplete", usage=usage, incomplete_details=details)]


# Messages


def messages_events(
    pieces: Sequence[str], calls: Sequence[str], stop: str, *, usage: bool = True
) -> list[Event]:
    events = [start(input_tokens=7, cache_read_input_tokens=5)]
    events += text_block(0, *pieces) if pieces else []
    events += tool_block(1, *calls) if calls else []
    ended = end(stop)
    if not usage:
        ended[0]["usage"] = None
    return [*events, *ended]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect, as a test wants to speak it.

    `stops` leads from our stop reasons to the dialect's; `errors` from our kinds to a status and
    the word in the body.
    """

    name: str
    model: str
    make: Callable[[Provider], ModelClient]
    events: Callable[..., list[Event]]
    written: Callable[[Sequence[Event]], bytes]
    stops: dict[str, str]
    errors: dict[str, tuple[int, str]]
    error_in_stream: Event
    recorded: str
    request_id: str = "x-request-id"

    def client(self, *answers: Answer, count: int | None = None) -> tuple[ModelClient, Provider]:
        provider = Provider(*answers, count=count)
        return self.make(provider), provider

    def body(
        self, *pieces: str, calls: Sequence[str] = (), stop: str = "end_turn", usage: bool = True
    ) -> bytes:
        return self.written(self.events(pieces, calls, self.stops[stop], usage=usage))

    def stream(self, content: bytes | httpx2.AsyncByteStream) -> httpx2.Response:
        return stream_of(content, **{self.request_id: "req_1"})

    def error(self, kind: str, **headers: str) -> httpx2.Response:
        status, word = self.errors[kind]
        error = {"type": word, "code": word, "message": "no luck", "param": None}
        body = {"type": "error", "error": error}
        return httpx2.Response(status, headers={self.request_id: "req_1", **headers}, json=body)


SHARED_ERRORS = {
    "authentication": (401, "invalid_api_key"),
    "permission": (429, "insufficient_quota"),
    "unknown_model": (404, "model_not_found"),
    "rate_limited": (429, "rate_limit_exceeded"),
    "context_overflow": (400, "context_length_exceeded"),
    "server": (500, "server_error"),
    "overloaded": (503, "slow_down"),
    "bad_request": (400, "invalid_request_error"),
}
MESSAGES = Dialect(
    name="messages",
    model=CLAUDE,
    make=lambda provider: provider.client(),
    events=messages_events,
    written=lambda events: sse(*events),
    stops={
        "end_turn": "end_turn",
        "tool_use": "tool_use",
        "max_tokens": "max_tokens",
        "refusal": "refusal",
        "unknown": "bored",
    },
    errors={
        "authentication": (401, "authentication_error"),
        "permission": (402, "billing_error"),
        "unknown_model": (404, "not_found_error"),
        "rate_limited": (429, "rate_limit_error"),
        "context_overflow": (400, "exceed_context_size_error"),
        "server": (500, "api_error"),
        "overloaded": (529, "overloaded_error"),
        "bad_request": (400, "invalid_request_error"),
    },
    error_in_stream={"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
    recorded="messages_text.sse",
    request_id="request-id",
)
CHAT = Dialect(
    name="chat",
    model="compat:box/box-1",
    make=chat_client,
    events=chat_events,
    written=lambda events: lines(events, done=True),
    stops={
        "end_turn": "stop",
        "tool_use": "tool_calls",
        "max_tokens": "length",
        "refusal": "content_filter",
        "unknown": "bored",
    },
    errors=SHARED_ERRORS,
    error_in_stream={"error": {"code": "slow_down", "message": "busy"}},
    recorded="chat_text.sse",
)
RESPONSES = Dialect(
    name="responses",
    model="openai:gpt-5",
    make=responses_client,
    events=responses_events,
    written=lambda events: lines(events, named=True),
    stops={
        "end_turn": "completed",
        "tool_use": "completed",
        "max_tokens": "max_output_tokens",
        "refusal": "content_filter",
        "unknown": "bored",
    },
    errors=SHARED_ERRORS,
    error_in_stream={"type": "error", "code": "slow_down", "message": "busy"},
    recorded="responses_text.sse",
)
DIALECTS = (MESSAGES, RESPONSES, CHAT)
