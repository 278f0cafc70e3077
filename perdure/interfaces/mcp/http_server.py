"""The MCP server over its standard streams, or over HTTP on this machine with a token."""

import asyncio
import math
import signal
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.domain.foundation.errors import PerdureError
from perdure.interfaces.audit_trail import AuditTrail
from perdure.interfaces.mcp.handler import McpSite
from perdure.interfaces.mcp.server import build_server
from perdure.interfaces.rest.auth_middleware import Rates
from perdure.interfaces.rest.connections import address_of
from perdure.interfaces.rest.server import serve
from perdure.interfaces.tokens import ShownToken, caller_of, require_usable

HOST = "127.0.0.1"
PATH = "/mcp"
INTERFACE = "MCP"


async def serve_stdio(site: McpSite) -> None:
    """Answer until the standard input ends."""
    await build_server(site).run_stdio_async()


async def serve_http(
    site: McpSite, *, port: int, on_ready: Callable[[str], None], stop: asyncio.Event | None = None
) -> None:
    """Answer over streamable HTTP on loopback until `stop` (or SIGTERM, SIGINT).

    Raises:
        NotAllowed: there is no usable token that anybody could send.
        ServiceUnavailable: the port cannot be listened on.
    """
    async with site.opened(False) as services:
        await require_usable(services.access, "The MCP server does not listen", now=site.now())
    server = build_server(site)
    app = Guard(server.streamable_http_app(streamable_http_path=PATH, host=HOST), site=site)
    async with server.session_manager.run():
        await serve(
            app,
            host=HOST,
            port=port,
            stop=stop or _stopped_by_signals(),
            on_ready=lambda url: on_ready(f"{url}{PATH}"),
        )


class Guard:
    """Admits only requests with a usable token; each tool checks what the token may do.

    The rate limit is that of REST, for a token as for an address without one.
    """

    def __init__(self, app: ASGIApp, *, site: McpSite) -> None:
        self._app = app
        self._site = site
        self._rates = Rates(site.rate_per_minute)
        self._audit: AuditTrail | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401 or 429, or 503 if tokens cannot be looked up."""
        # Other scopes, such as the start of the server, carry no headers.
        refusal = await self._refusal(scope) if scope["type"] == "http" else None
        await (self._app if refusal is None else refusal)(scope, receive, send)

    async def _refusal(self, scope: Scope) -> JSONResponse | None:
        try:
            address = address_of(scope)
            token, ended = await self._known(scope, address)
        except PerdureError as error:
            return JSONResponse({"error": error.code, "cure": error.cure}, 503)
        # Counted before the token is judged, so that guesses at tokens are limited too.
        wait = self._rates.take_request(f"token {token.id}" if token else address)
        if wait > 0:
            # Rounded up: whoever comes a part of a second too early is refused again.
            return self._too_many(math.ceil(wait))
        if token is not None:
            return None
        refused = {"error": "unauthorized", "cure": "Send `authorization: Bearer TOKEN`."}
        if ended is not None:
            refused |= {"detail": ended.detail, "cure": ended.cure}
        return JSONResponse(refused, 401, {"www-authenticate": 'Bearer realm="perdure"'})

    def _too_many(self, seconds: int) -> JSONResponse:
        told = f"More than {self._site.rate_per_minute} requests in a minute."
        refused = {
            "error": "too_many_requests",
            "detail": told,
            "cure": f"Try again in {seconds} s.",
        }
        return JSONResponse(refused, 429, {"retry-after": str(seconds)})

    async def _known(self, scope: Scope, address: str) -> ShownToken:
        given = Headers(scope=scope).get("authorization")
        # Nothing is started for a caller of whom nobody knows yet who it is.
        async with self._site.opened(False) as services:
            shown = await caller_of(given, services.access, now=self._site.now())
            # The trail with the counts so far, over the store opened for this request.
            if self._audit is None:
                self._audit = AuditTrail(services.audit, now=self._site.now)
            audit = self._audit.use_store(services.audit)
            if shown.token is None:
                await audit.note_refused_login(given, interface=INTERFACE, address=address)
            else:
                await audit.note_token_use(shown.token, interface=INTERFACE, address=address)
            return shown


def _stopped_by_signals() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
