"""A provider on loopback that keeps its own books: every request is a line before it is answered.

It speaks the Messages API over server-sent events. A script says what each logical call (requests
of the same content) gets, attempt by attempt: an answer, an error, a stall, a cut connection.
"""

import asyncio
import hashlib
import json
import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from accepting import accepting

MODEL = "ledger-model"
PRICE_SHEET = """models:
  ledger-model: {input_per_million: 1, output_per_million: 10, max_output: 8192, window: 200000}
  second-model:
    {input_per_million: 1, output_per_million: 10, max_output: 8192, window: 200000, thinking: []}
"""
End = Literal["whole", "cut", "reset_after_last", "error_event", "never"]
Call = tuple[str, Mapping[str, object]]


@dataclass(frozen=True, kw_only=True)
class Play:
    """What one attempt gets. `gate` holds the answer back until the test opens it.

    Attributes:
        billed: the output tokens on the bill; None: a few.
        stalls_at: the share of the answer after which nothing more comes, ever.
        accounts: whether the answer says what it used.
    """

    text: str = "ok"
    calls: Sequence[Call] = ()
    raw_arguments: str | None = None
    stop: str | None = None
    status: int = 200
    error: str = "api_error"
    message: str = "scripted"
    headers: Mapping[str, str] = field(default_factory=dict)
    end: End = "whole"
    gate: str | None = None
    delay_s: float = 0.0
    blocks: bool = True
    billed: int | None = None
    stalls_at: float | None = None
    accounts: bool = True


@dataclass(frozen=True)
class Line:
    """One line of the ledger."""

    call: int
    attempt: int
    hash: str
    input_tokens: int
    output_tokens: int
    at: float

    @property
    def tokens(self) -> int:
        """What the provider bills."""
        return self.input_tokens + self.output_tokens


Plays = Sequence[Play | Sequence[Play]]
Choose = Callable[[dict[str, object]], Sequence[Play]]


class Provider:
    """The server, its script and its ledger."""

    def __init__(self, ledger: Path, plays: Plays = (), *, choose: Choose | None = None) -> None:
        self.ledger = ledger
        self.plays: Plays = list(plays)
        self.choose = choose
        self.url = ""
        self.bodies: list[dict[str, object]] = []
        self.stalled = 0
        self._gates: dict[str, asyncio.Event] = {}
        self._calls: dict[str, int] = {}
        self._attempts: dict[str, int] = {}

    def lines(self) -> list[Line]:
        """The ledger as it stands."""
        if not self.ledger.exists():
            return []
        return [Line(**json.loads(row)) for row in self.ledger.read_text().splitlines()]

    def open(self, gate: str) -> None:
        """Let the answers behind a gate go."""
        self._gate(gate).set()

    def _gate(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator["Provider"]:
        """Listen on a free port."""
        async with accepting(self._exchanges) as port:
            self.url = f"http://127.0.0.1:{port}"
            yield self

    async def _exchanges(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await self._exchange(reader, writer):
            pass

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        sizes = [row.split(":")[1] for row in head.lower().splitlines() if "content-length" in row]
        body = json.loads(await reader.readexactly(int(sizes[0])))
        if "/count_tokens" in head.split()[1]:
            _whole(writer, 200, {"input_tokens": _size(body)}, {})
            await writer.drain()
            return True
        play, line = self._book(body)
        if play.gate is not None:
            await self._gate(play.gate).wait()
        await asyncio.sleep(play.delay_s)
        if play.end == "never":
            await asyncio.Event().wait()
        if play.status != 200:
            error = {"type": play.error, "message": play.message}
            _whole(writer, play.status, {"type": "error", "error": error}, play.headers)
            await writer.drain()
            return True
        await _stream(writer, play, line)
        if play.stalls_at is not None:
            self.stalled += 1
            await reader.read()  # until the other side goes
        return False

    def _book(self, body: dict[str, object]) -> tuple[Play, Line]:
        self.bodies.append(body)
        content = {name: value for name, value in body.items() if name != "max_tokens"}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
        call = self._calls.setdefault(digest, len(self._calls))
        attempt = self._attempts[digest] = self._attempts.get(digest, 0) + 1
        play = self._play(body, call, attempt)
        billed = 0 if play.status != 200 else 1
        line = Line(
            call=call,
            attempt=attempt,
            hash=digest,
            input_tokens=_size(body) * billed,
            output_tokens=((play.billed or 10) + len(self.bodies)) * billed,  # tells them apart
            at=time.time(),
        )
        with self.ledger.open("a") as file:
            file.write(json.dumps(line.__dict__) + "\n")
            file.flush()
            os.fsync(file.fileno())
        return play, line

    def _play(self, body: dict[str, object], call: int, attempt: int) -> Play:
        if self.choose is not None:
            plays = self.choose(body)
        else:
            given = self.plays[min(call, len(self.plays) - 1)]
            plays = [given] if isinstance(given, Play) else given
        return plays[min(attempt, len(plays)) - 1]


def _size(body: dict[str, object]) -> int:
    content = [body.get("system"), body.get("messages"), body.get("tools")]
    return len(json.dumps(content)) // 4


def _whole(
    writer: asyncio.StreamWriter,
    status: int,
    body: Mapping[str, object],
    headers: Mapping[str, str],
) -> None:
    content = json.dumps(body).encode()
    named = {"content-type": "application/json", "content-length": str(len(content)), **headers}
    rows = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    writer.write(f"HTTP/1.1 {status} X\r\n{rows}\r\n".encode() + content)


async def _stream(writer: asyncio.StreamWriter, play: Play, line: Line) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"
        + f"request-id: req_{line.call}_{line.attempt}\r\n\r\n".encode()
    )
    events = list(_events(play, line))
    kept = {"cut": len(events) // 2, "error_event": len(events) // 2}.get(play.end, len(events))
    if play.stalls_at is not None:
        kept = int(play.stalls_at * (len(events) - 2))  # the account comes with the last two
    for name, data in events[:kept]:
        writer.write(f"event: {name}\ndata: {data}\n\n".encode("utf-8", "surrogatepass"))
    if play.end == "error_event":
        data = json.dumps({"type": "error", "error": {"type": play.error, "message": play.message}})
        writer.write(f"event: error\ndata: {data}\n\n".encode())
    await writer.drain()
    if play.end in {"cut", "reset_after_last"}:
        writer.transport.abort()


def _events(play: Play, line: Line) -> list[tuple[str, str]]:
    usage = {"input_tokens": line.input_tokens, "output_tokens": 1} if play.accounts else None
    events: list[dict[str, object]] = [
        {
            "type": "message_start",
            "message": {
                "id": f"msg_{line.call}_{line.attempt}",
                "type": "message",
                "role": "assistant",
                "model": MODEL,
                "content": [],
                "stop_reason": None,
                "usage": usage,
            },
        }
    ]
    index = 0
    if play.text and play.blocks:
        events += _block(index, {"type": "text", "text": ""}, *_texts(play.text))
        index += 1
    for name, arguments in play.calls:
        start = {"type": "tool_use", "id": f"toolu_{line.call}_{index}", "name": name, "input": {}}
        written = play.raw_arguments or json.dumps(arguments)
        events += _block(index, start, {"type": "input_json_delta", "partial_json": written})
        index += 1
    stop = play.stop or ("tool_use" if play.calls else "end_turn")
    events.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": line.output_tokens} if play.accounts else None,
        }
    )
    events.append({"type": "message_stop"})
    return [(str(event["type"]), json.dumps(event)) for event in events]


def _texts(text: str) -> list[dict[str, object]]:
    pieces = max(1, min(40, len(text) // 50))
    size = -(-len(text) // pieces)
    return [
        {"type": "text_delta", "text": text[start : start + size]}
        for start in range(0, len(text), size)
    ]


def _block(
    index: int, start: Mapping[str, object], *deltas: Mapping[str, object]
) -> list[dict[str, object]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": dict(start)},
        *(
            {"type": "content_block_delta", "index": index, "delta": dict(delta)}
            for delta in deltas
        ),
        {"type": "content_block_stop", "index": index},
    ]
