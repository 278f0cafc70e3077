"""Requests in progress when the server stops: streams close; others get time, then an answer."""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.interfaces.rest.error_responses import RETRY_AFTER_S, Refused, document

_ENDING = Refused(
    503,
    "service_unavailable",
    "The server is being stopped, and the request was not finished.",
    cure="Send it again in a few seconds.",
    headers={"connection": "close", "retry-after": str(RETRY_AFTER_S)},
)


class Endings:
    """ASGI middleware that answers requests which the end of the server cuts short.

    The server itself would log a traceback for each of them, and hundreds of those keep it from
    stopping.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._ending = False
        self._streams: set[asyncio.Task[object]] = set()

    def begin(self) -> None:
        """Close the streams, which never end by themselves, and answer cancelled requests."""
        self._ending = True
        for stream in tuple(self._streams):
            stream.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request, and answer it if it is cut short."""
        task = asyncio.current_task()
        started: list[Headers] = []

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                started.append(Headers(raw=message["headers"]))
                if task is not None and _streams(started[0]):
                    self._streams.add(task)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            if not self._ending:
                raise
            if not started:
                await document(_ENDING, instance=scope["path"])(scope, receive, send)
            elif _streams(started[0]):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            if task is not None:
                self._streams.discard(task)


def _streams(headers: Headers) -> bool:
    return headers.get("content-type", "").startswith("text/event-stream")
