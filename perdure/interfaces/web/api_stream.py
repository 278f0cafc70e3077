"""Streams of the REST API as the views follow them: in this process, event by event."""

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

from perdure.domain.installation.access import ApiToken
from perdure.interfaces.web.api_calls import API, admitted, problem_of

OK = 200
_END = b"\n\n"


class Told(NamedTuple):
    """One server-sent event: its name and its data."""

    event: str
    data: str


async def followed(app: ASGIApp, token: ApiToken, path: str) -> AsyncGenerator[Told]:
    """Follow the events of a stream until it ends or the reader stops.

    Args:
        app: the REST application.
        token: in whose name; the stream counts as one of that token's.
        path: below `/api/v1`.

    Raises:
        ApiProblem: the API refused.
    """
    # At most one part is queued, so that a slow reader slows the stream down, as over a network.
    parts: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
    left = asyncio.Event()
    status: list[int] = []

    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])
        elif part := message.get("body"):
            await parts.put(part)

    async def answer() -> None:
        try:
            await admitted(app, token)(_scope(API + path), receive, send)
        finally:
            await parts.put(None)

    answering = asyncio.create_task(answer(), name=f"stream {path}")
    try:
        rest = b""
        while (part := await parts.get()) is not None:
            if status != [OK]:
                # A refusal comes as one part, since nothing of it is streamed.
                raise problem_of(status[0], part)
            *whole, rest = (rest + part).split(_END)
            for one in whole:
                if (told := _told(one)) is not None:
                    yield told
        # It raises what broke the stream; the parts end in either case.
        await answering
    finally:
        left.set()
        # It may wait for room in the queue, where it hears of no disconnect.
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)


def _scope(path: str) -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"page")],
        "client": None,
        "server": None,
    }


def _told(lines: bytes) -> Told | None:
    """Parse one event; None for a comment or a setting of the stream."""
    event, data = "", list[str]()
    for line in lines.decode().split("\n"):
        name, _, value = line.partition(": ")
        if name == "event":
            event = value
        elif name == "data":
            data.append(value)
    return Told(event, "\n".join(data)) if event or data else None
