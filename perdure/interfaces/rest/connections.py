"""Connections of HTTP interfaces: idle ones shut nobody out, and no request is ambiguous.

A request is admitted by its token, which is known only when its head has come. Until then a
connection rests, and so it does between requests: it has seconds to say what it wants, and beyond a
number of connections the oldest that rests is dropped. Callers at work are never dropped.
"""

import asyncio
from collections.abc import Iterable
from typing import cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from perdure.domain.installation.hosts import answers_to
from perdure.interfaces.rest.error_responses import Refused, document

CONNECTIONS = 512
HEAD_WITHIN_S = 10.0


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with bounds on what a connection may cost before it is known whose it is."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a request, and make room."""
        super().connection_made(transport)
        self._late: asyncio.TimerHandle | None = None
        self._resting_since = self.loop.time()
        self._watch()
        if len(self.connections) > CONNECTIONS:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Read, and stop the clock once a request has begun."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Rest until the next request."""
        self._resting_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the clock too."""
        self._stop_clock()
        super().connection_lost(exc)

    @property
    def rests(self) -> bool:
        """Whether no request is being answered."""
        # Declared without the None that it begins as.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def _watch(self) -> None:
        if not self.rests:
            self._stop_clock()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_WITHIN_S, self._too_late)

    def _stop_clock(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        self._late = None
        if self.rests:
            self.transport.abort()

    def _make_room(self) -> None:
        resting = [
            one
            for one in self.connections
            if isinstance(one, BoundedProtocol) and one is not self and one.rests
        ]
        if resting:
            oldest = min(resting, key=lambda one: one._resting_since)
            self.connections.discard(oldest)
            oldest.transport.abort()


class Addressed:
    """The outermost ASGI middleware: it lets through requests for this host with one length.

    Args:
        app: what is asked next.
        names: the hosts that the interface answers to; None: any.
    """

    def __init__(self, app: ASGIApp, *, names: frozenset[str] | None) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        refused = self._refusal(scope["headers"]) if scope["type"] == "http" else None
        if refused is None:
            await self._app(scope, receive, send)
        else:
            await document(refused, instance=scope["path"])(scope, receive, send)

    def _refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> Refused | None:
        given: dict[bytes, list[str]] = {}
        for name, value in headers:
            given.setdefault(name.lower(), []).append(value.decode("latin-1"))
        if self._names is not None and not answers_to(given.get(b"host", ()), self._names):
            return Refused(
                421,
                "misdirected_request",
                "The host header names another host than this API.",
                cure="Use the address that the API was started with, or add the host to "
                "PERDURE_API_HOSTS.",
                headers={"connection": "close"},
            )
        if b"content-length" in given and b"transfer-encoding" in given:
            return Refused(
                400,
                "bad_request",
                "The request has both content-length and transfer-encoding.",
                cure="Send only one of them.",
                headers={"connection": "close"},
            )
        return None
