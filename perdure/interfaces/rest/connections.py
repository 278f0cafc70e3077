"""Limits on connections, so that idle clients lock nobody out and no request is ambiguous.

The token of a request is known only after its head has arrived. Until then, and between requests, a
connection is idle. An idle connection has a few seconds to send a request head. When there are too
many connections, the one idle for longest is dropped. One whose body has not all arrived counts as
idle there: forms of the page are read before anybody is known. Connections whose request is in
progress are never dropped.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address
from typing import cast

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from perdure.domain.installation.hosts import answers_to
from perdure.interfaces.rest.error_responses import RETRY_AFTER_S, Refused, document

CONNECTIONS = 512
HEAD_WITHIN_S = 10.0
HEALTH = frozenset({"/healthz", "/readyz"})
_UNREAD_CURE = "Send one HTTP/1.1 request with a `host`, and a body as long as its head says."


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with limits on a connection before its caller is known."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the timer for the first request; drop an idle connection if there are too many."""
        super().connection_made(transport)
        self._late: asyncio.TimerHandle | None = None
        self._resting_since = self.loop.time()
        self._watch()
        if len(self.connections) > CONNECTIONS:
            resting = [
                one
                for one in self.connections
                if isinstance(one, BoundedProtocol) and one is not self and one.expendable
            ]
            if resting:
                oldest = min(resting, key=lambda one: one._resting_since)
                # At once: an aborted connection reports its loss later, and until then the next
                # ones would find the same.
                self.connections.discard(oldest)
                oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read data, and stop the timer once a request has begun."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Mark the connection as idle until the next request."""
        self._resting_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_clock()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request in the form of all errors."""
        cycle = self._last_cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            answer = document(Refused(400, "bad_request", msg, cure=_UNREAD_CURE), instance="")
            headers = (name + b": " + value for name, value in answer.raw_headers)
            head = (b"HTTP/1.1 400 Bad Request", *headers, b"connection: close", b"", b"")
            self.transport.write(b"\r\n".join(head) + answer.body)
        self.transport.close()

    @property
    def rests(self) -> bool:
        """Whether no request is in progress."""
        cycle = self._last_cycle
        return cycle is None or cycle.response_complete

    @property
    def expendable(self) -> bool:
        """Whether nothing is lost but what a client has not sent yet."""
        cycle = self._last_cycle
        return cycle is None or cycle.response_complete or cycle.more_body

    @property
    def _last_cycle(self) -> RequestResponseCycle | None:
        # The base class declares it without None, but it starts as None.
        return cast("RequestResponseCycle | None", self.cycle)

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


def address_of(scope: Scope) -> str:
    """Who calls, for rates and the audit trail; a proxy may pass on any text as an address."""
    host = (scope.get("client") or ("", 0))[0]
    try:
        return f"address {ip_address(host)}"
    except ValueError:
        return "address unknown"


class Addressed:
    """The outermost ASGI middleware: admits only requests for this host with one clear length.

    Requests beyond `CONNECTIONS` at once are answered 503, but not those for health. uvicorn's own
    limit answers in plain text, which clients that read problem documents cannot.

    Args:
        app: the application to call next.
        names: the hosts that the interface answers to; None: any.
    """

    def __init__(self, app: ASGIApp, *, names: frozenset[str] | None) -> None:
        self._app = app
        self._names = names
        self._at_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        refused = None
        if scope["type"] == "http":
            refused = self._refusal(scope["headers"], health=scope["path"] in HEALTH)
        if refused is None:
            self._at_work += 1
            try:
                # Who leaves in the middle of a body must not fill the log with tracebacks.
                with suppress(ClientDisconnect):
                    await self._app(scope, receive, send)
            finally:
                self._at_work -= 1
        else:
            await document(refused, instance=scope["path"])(scope, receive, send)

    def _refusal(self, headers: Iterable[tuple[bytes, bytes]], *, health: bool) -> Refused | None:
        given: dict[bytes, list[str]] = {}
        for name, value in headers:
            given.setdefault(name.lower(), []).append(value.decode("latin-1"))
        # Another name for this address (DNS rebinding) would let in the pages of other sites.
        if self._names is not None and not answers_to(given.get(b"host", ()), self._names):
            return Refused(
                421,
                "misdirected_request",
                "The host header names another host than this API.",
                cure="Use the address that the API was started with, or add the host to "
                "PERDURE_API_HOSTS.",
                headers={"connection": "close"},
            )
        # Who restarts what does not answer must not do so because many wait.
        if self._at_work > CONNECTIONS and not health:
            return Refused(
                503,
                "too_many_connections",
                f"{self._at_work} requests are being answered, streams of events included.",
                cure="Try again in a few seconds; close streams that nobody reads.",
                headers={"connection": "close", "retry-after": str(RETRY_AFTER_S)},
            )
        # A proxy could see another end of such a request than this server (request smuggling).
        if b"content-length" in given and b"transfer-encoding" in given:
            return Refused(
                400,
                "bad_request",
                "The request has both content-length and transfer-encoding.",
                cure="Send only one of them.",
                headers={"connection": "close"},
            )
        return None
