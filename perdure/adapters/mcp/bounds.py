"""How much an MCP server may say: one that never ends a message must not fill the worker's memory.

The SDK reads lines and answers of any length, and logs a trace of each line that it cannot read.
"""

import json
import re
from collections.abc import AsyncIterable, AsyncIterator, Iterator

import httpx2
import mcp.types as wire
from pydantic import ValidationError

MIB = 1024 * 1024
# Room for a result that is cut later (`HARD_CAP_BYTES`), given both as text and as data.
MESSAGE_BYTES = 32 * MIB
# An object of Python takes a hundred times the room of a short value, so 5 MB of numbers take 750.
VALUES = 500_000
FEW_BYTES = MIB
STREAM_BYTES = 64 * MIB  # events of one HTTP answer, most of which are notifications
# Between two answers: lines that are no messages, such as logs on standard output; messages that
# nobody asked for, such as progress; and those among them that want an answer, such as pings.
NOISE_BYTES = MIB
UNASKED_MESSAGES = 10_000
REQUESTS = 1_000
SHOWN_BYTES = 80
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
SURROGATE = re.compile(r"[\ud800-\udfff]")


class TooMuch(Exception):
    """A server says more than it may, or what nobody can read; the message tells what it did."""


class Messages:
    """The messages among the lines of a local server.

    Bytes are looked at once, so the time to read a message grows with its length and no faster.
    """

    def __init__(self) -> None:
        self._begun = bytearray()
        self._forget()

    def feed(self, chunk: bytes) -> Iterator[wire.JSONRPCMessage]:
        """The messages that these bytes complete.

        Raises:
            TooMuch: the server says more than it may, or what cannot be read.
        """
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = bytes(self._begun) + end
            self._begun.clear()
            message = self._read(line.strip())
            if message is not None:
                yield message
        self._begun += rest
        _require_short(len(self._begun))

    def _read(self, line: bytes) -> wire.JSONRPCMessage | None:
        _require_short(len(line))
        if _has_many_values(line):
            raise TooMuch(f"sent a message of more than {VALUES:,} values")
        message = _parsed(line) if line.startswith(b"{") else None
        match message:
            case None:
                self._noise += len(line) + 1
            case wire.JSONRPCResponse() | wire.JSONRPCError():
                self._forget()
            case wire.JSONRPCRequest():
                self._unasked, self._requests = self._unasked + 1, self._requests + 1
            case wire.JSONRPCNotification():
                self._unasked += 1
        if self._noise > NOISE_BYTES:
            raise TooMuch(f"wrote more than {NOISE_BYTES:,} bytes that are no messages")
        if self._unasked > UNASKED_MESSAGES or self._requests > REQUESTS:
            raise TooMuch(f"sent {self._unasked:,} messages without an answer")
        return message

    def _forget(self) -> None:
        self._noise = self._unasked = self._requests = 0


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Sends requests by another transport, and ends each answer that is too long.

    Answers are asked for without compression, since a small one could hold a huge text.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"
        answer = await self._inner.handle_async_request(request)
        media = answer.headers.get("content-type", "").lower()
        events = media.startswith("text/event-stream")
        packed = answer.headers.get("content-encoding", "identity").lower() != "identity"
        if isinstance(answer.stream, httpx2.AsyncByteStream):
            answer.stream = _Bounded(answer.stream, events=events, packed=packed)
        return answer

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, *, events: bool, packed: bool) -> None:
        self._inner, self._events, self._packed = inner, events, packed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._packed:
            raise httpx2.StreamError("the answer is compressed, which was not asked for")
        size, begun = 0, bytearray()
        chunks: AsyncIterable[bytes] = self._inner
        async for chunk in chunks:
            size += len(chunk)
            if size > (STREAM_BYTES if self._events else MESSAGE_BYTES):
                raise httpx2.StreamError(f"the answer has more than {size - 1:,} bytes")
            if self._events:
                yield chunk
            else:
                # Kept back until its values are counted: whoever reads them makes objects of them.
                begun += chunk
        if _has_many_values(begun):
            raise httpx2.StreamError(f"the answer has more than {VALUES:,} values")
        yield bytes(begun)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _has_many_values(text: bytes | bytearray) -> bool:
    return len(text) > FEW_BYTES and STRING.sub(b"", text).count(b",") > VALUES


def _require_short(size: int) -> None:
    if size > MESSAGE_BYTES:
        raise TooMuch(f"sent a message of more than {MESSAGE_BYTES:,} bytes")


def _parsed(line: bytes) -> wire.JSONRPCMessage | None:
    """The message of a line; None for JSON of another kind, such as a log.

    Servers in JavaScript cut texts in the middle of a character: half of one is replaced.
    """
    try:
        return wire.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        if b'"jsonrpc"' not in line:
            return None
    try:
        loaded: object = json.loads(line.decode(errors="replace"))
        text = SURROGATE.sub("\N{REPLACEMENT CHARACTER}", json.dumps(loaded, ensure_ascii=False))
        return wire.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except (ValueError, RecursionError):
        raise TooMuch(f"sent a message that cannot be read: {_shown(line)}") from None


def _shown(line: bytes) -> str:
    return repr(line[:SHOWN_BYTES].decode(errors="replace"))
