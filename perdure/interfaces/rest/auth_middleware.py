"""Authenticates and counts every request before anything else of it is read."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.installation.access import ApiToken, Ended
from perdure.interfaces.places import hider
from perdure.interfaces.rest.connections import HEALTH, address_of
from perdure.interfaces.rest.error_responses import Refused, as_refusal, document
from perdure.interfaces.rest.settings import DOCUMENT, METRICS, ApiSite
from perdure.interfaces.tokens import caller_of

CALLERS_KEPT = 10_000


class Rates:
    """A token bucket for each caller; the callers not seen for longest are forgotten.

    Args:
        per_minute: how many requests a bucket holds, and how many it regains in a minute.
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = float(per_minute)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take_request(self, caller: str) -> float:
        """Take a request from the caller's bucket; return the seconds to wait, 0 if allowed."""
        now = self._clock()
        # Taken out and put back at the end, so that whoever floods from new addresses pushes out
        # callers that are quiet, not those at work.
        left, since = self._buckets.pop(caller, (self._size, now))
        left = min(self._size, left + (now - since) * self._size / 60)
        allowed = left >= 1
        self._buckets[caller] = (left - 1 if allowed else left, now)
        if len(self._buckets) > CALLERS_KEPT:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) * 60 / self._size


DOCUMENT_PATH = "/api/v1/openapi.json"
METRICS_PATH = "/metrics"
CALLER = "perdure_token"
INTERFACE = "REST"
FORBIDDEN = 403
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class Authentication:
    """ASGI middleware that adds the caller's token to the scope, or answers with a refusal."""

    def __init__(self, app: ASGIApp, *, site: ApiSite) -> None:
        self._app = app
        self._site = site
        self._rates = Rates(site.rules.rate_per_minute)
        self._audit = site.trail
        self._hide = hider(site.services.endpoints.home)
        self._open = HEALTH | _public(site.rules.public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or refuse it with a problem document."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # The pages call the API inside this process with the token already in the scope. A request
        # from the network cannot set that entry.
        if isinstance(scope.get(CALLER), ApiToken):
            await self._app(scope, receive, self._witnessed(scope, send))
            return
        try:
            scope[CALLER] = await self._admit(scope)
        except Refused as refused:
            answer = document(refused, instance=scope["path"], hide=self._hide)
            await answer(scope, receive, _with_headers(send))
            return
        await self._app(scope, receive, self._witnessed(scope, _with_headers(send)))

    def _witnessed(self, scope: Scope, send: Send) -> Send:
        """Record a request that was refused for lack of permission."""

        async def sending(message: Message) -> None:
            token: ApiToken | None = scope[CALLER]
            if (
                token
                and message["type"] == "http.response.start"
                and message["status"] == FORBIDDEN
            ):
                what = f"{scope['method']} {scope['path']}"
                await self._audit.note_refused_access(token, what=what)
            await send(message)

        return sending

    async def _admit(self, scope: Scope) -> ApiToken | None:
        given = Headers(scope=scope).get("authorization")
        address = address_of(scope)
        if given is None and scope["path"] in self._open:
            self._count(address)
            return None
        try:
            token, ended = await caller_of(given, self._site.services.access, now=self._site.now())
        except PerdureError as error:
            if scope["path"] in HEALTH:  # health checks must work without the store
                self._count(address)
                return None
            raise as_refusal(error) from error
        # By address where no token is known: guesses share one bucket, whatever ids they name.
        self._count(f"token {token.id}" if token else address)
        if token is None:
            await self._audit.note_refused_login(given, interface=INTERFACE, address=address)
            raise _unauthorized(given, ended)
        await self._audit.note_token_use(token, interface=INTERFACE, address=address)
        self._site.in_use()
        return token

    def _count(self, caller: str) -> None:
        wait = self._rates.take_request(caller)
        if wait > 0:
            raise Refused(
                429,
                "too_many_requests",
                f"More than {self._site.rules.rate_per_minute} requests in a minute.",
                cure=f"Try again in {math.ceil(wait)} s.",
                headers={"retry-after": str(math.ceil(wait))},
            )


def _public(names: frozenset[str]) -> frozenset[str]:
    paths = {DOCUMENT: DOCUMENT_PATH, METRICS: METRICS_PATH}
    return frozenset(path for name, path in paths.items() if name in names)


def _unauthorized(given: str | None, ended: Ended | None) -> Refused:
    found = "no token" if given is None else "a token that does not exist or has another secret"
    make = "Make one with `perdure api token create`, and send it as `authorization: Bearer …`."
    detail, cure = ended or (f"The request came with {found}.", make)
    return Refused(
        401,
        "unauthorized",
        detail,
        cure=cure,
        headers={"www-authenticate": 'Bearer realm="perdure"'},
    )


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            # A route may be stricter or more exact, such as that of an attachment.
            had = {name for name, _ in message.get("headers", ())}
            more = [pair for pair in _HEADERS if pair[0] not in had]
            message["headers"] = [*message.get("headers", ()), *more]
        await send(message)

    return sending
