"""A server that never ends an answer, whatever it sends: the worker keeps its memory."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from perdure.adapters.llm import answer_bounds
from perdure.adapters.llm.messages import MessagesModel
from perdure.domain.ports import ModelClient
from tests.adapters.llm.dialects import JSON, chat_client, message_item, responses_client
from tests.adapters.llm.support import CLAUDE, Provider, fails, request, sse, start, text_block

MOST = 1 << 20
TEXT = "word " * 200
OPENED, PIECE, _ = text_block(0, TEXT)
CHUNK = {"choices": [{"index": 0, "delta": {"content": TEXT}, "finish_reason": None}]}
ADDED, DELTA = message_item(TEXT)[:2]


class Endless(httpx2.AsyncByteStream):
    """One piece over and over; `sent` counts the bytes."""

    def __init__(self, first: bytes, again: bytes) -> None:
        self._first, self._again = first, again
        self.sent = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._first
        while True:
            self.sent += len(self._again)
            assert self.sent < 4 * MOST, "the bound was passed"
            yield self._again


def _data(event: dict[str, Any]) -> bytes:
    return sse({"type": "x", **event}).split(b"\n", 1)[1]


def _messages(provider: Provider) -> MessagesModel:
    return provider.client()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_bounds, "MOST_BYTES", MOST)


@pytest.mark.parametrize(
    ("client", "model", "first", "again"),
    [
        (_messages, CLAUDE, sse(start(), OPENED), sse(PIECE)),
        (_messages, CLAUDE, b"data: ", b"a line without an end "),
        (chat_client, "compat:box/m", b"", _data(CHUNK)),
        (chat_client, "compat:box/m", b"data: ", b"a line without an end "),
        (responses_client, "openai:gpt-5.2", _data(ADDED), _data(DELTA)),
    ],
    ids=["messages", "messages, one line", "chat", "chat, one line", "responses"],
)
async def test_a_stream_that_never_ends_is_given_up(
    client: Callable[[Provider], ModelClient], model: str, first: bytes, again: bytes
) -> None:
    body = Endless(first, again)
    answer = httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=body)
    facts = await fails(client(Provider(answer)), request(model=model))
    assert facts.kind == "bad_reply"
    assert "The provider's answer cannot be used: it is longer than 1 MiB." in facts.message
    assert MOST - 100_000 < body.sent < MOST + 100_000


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("client", [_messages, chat_client], ids=["messages", "chat"])
async def test_what_is_no_stream_is_bounded_too(
    client: Callable[[Provider], ModelClient], status: int
) -> None:
    body = Endless(b'{"a": "', b"more " * 1000)
    model = CLAUDE if client is _messages else "compat:box/m"
    answer = httpx2.Response(status, headers=JSON, stream=body)
    facts = await fails(client(Provider(answer)), request(model=model))
    assert facts.kind == "bad_reply"
    assert body.sent < MOST + 100_000
