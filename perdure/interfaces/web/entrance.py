"""ASGI middleware before all pages: reads the session before anything else."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import SplitResult, quote, urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.domain.foundation.errors import PerdureError, StoreAway
from perdure.interfaces.rest.auth_middleware import Rates
from perdure.interfaces.rest.connections import address_of
from perdure.interfaces.rest.error_responses import DESCRIBED, Refused, document
from perdure.interfaces.rest.request_limits import WITHIN_S
from perdure.interfaces.rest.settings import ApiSite
from perdure.interfaces.web.api_calls import ApiProblem
from perdure.interfaces.web.cookies import given_cookies
from perdure.interfaces.web.rendering import rendered
from perdure.interfaces.web.session import Session
from perdure.interfaces.web.visit import VISITOR, Visitor, Written, texts_of, written

SIGN_IN = "/sign-in"
OPEN = (SIGN_IN, "/assets/")
TOO_LATE = 408
READING = frozenset({"GET", "HEAD"})
# Nobody has been admitted yet who may make the server read long forms.
MOST_SHOWN_BYTES = 64 * 1024
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    # With `no-referrer`, browsers send `Origin: null` with a form, and the check below would fail.
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
)


# A program that guesses `/loops` or `/openapi.json` would be sent to a form, and read HTML.
_NOT_FOR_PROGRAMS = Refused(
    404,
    "not_found",
    "The API answers below /api/v1, and pages for people at all other paths.",
    cure=f"{DESCRIBED} names every path, with the token of the same header.",
)

AWAY = "perdure-away"
"""The header that tells a script what is away; see `page.js`."""
RETRY_S = "5"


class Entrance:
    """Admits visitors with a session, and redirects all others to the sign-in.

    Args:
        app: the pages.
        site: the installation, whose store has the tokens behind the sessions.
    """

    def __init__(self, app: ASGIApp, *, site: ApiSite) -> None:
        self._app = app
        self._site = site
        self._rates = Rates(site.rules.rate_per_minute)
        self._key: bytes | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] not in READING:
            receive = _in_time(receive)
        try:
            answer = await self._refusal(scope, receive)
        except ApiProblem as late:
            answer = self._plain(late.status, late.detail, late.cure)
        await (answer or self._app)(scope, receive, _with_headers(send))

    async def _refusal(self, scope: Scope, receive: Receive) -> Response | None:
        """The answer in place of the page; None if the request may pass."""
        headers, path = Headers(scope=scope), scope["path"]
        reads = scope["method"] in READING
        if not reads and (
            told := self._foreign_form_refusal(headers) or self._length_refusal(headers)
        ):
            return self._plain(*told)
        # Counted as well: guesses of tokens come here.
        if path.startswith(OPEN):
            return self._rate_refusal(address_of(scope))
        try:
            visitor = await self._visitor(scope)
        except StoreAway as error:
            now = self._site.now()
            return away_page(now, detail=error.message, cure=error.cure or "", reads=reads)
        except PerdureError as error:
            return self._plain(503, "The store does not answer.", error.message)
        if visitor is not None:
            scope[VISITOR] = visitor
            self._site.in_use()
            return self._rate_refusal(f"token {visitor.token.id}")
        if _is_a_program(headers):
            return self._rate_refusal(address_of(scope)) or document(
                _NOT_FOR_PROGRAMS, instance=path
            )
        asked = path + (
            f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
        )
        if not reads:
            told = await _written(scope, receive)
            cure = "Sign in, then send the form again."
            return self._plain(401, "You are signed out.", cure, texts=told)
        if headers.get("sec-fetch-site") == "cross-site":
            # Browsers do not send a `SameSite=Strict` cookie when a link on another site was
            # followed. This answer makes the browser ask again from here, with the cookie.
            return HTMLResponse(rendered("layout/again.html", self._site.now()))
        if headers.get("hx-request") == "true":
            return _signed_out(headers)
        return RedirectResponse(f"{SIGN_IN}?next={quote(asked, safe='')}", status_code=303)

    async def _visitor(self, scope: Scope) -> Visitor | None:
        access, now = self._site.services.access, self._site.now()
        if "cookie" not in Headers(scope=scope):
            return None  # the sign-in needs no store
        if self._key is None:
            # Cached, as the key of an installation never changes.
            self._key = await access.signing_key()
        key = self._key
        for text in given_cookies("session", key, scope, self._site.rules.page_url):
            session = Session.read(text, key, now=now)
            token = None if session is None else await session.holder(access, now=now)
            if session is not None and token is not None:
                return Visitor(token=token, form_key=session.form_key(key), session=session)
        return None

    def _rate_refusal(self, who: str) -> Response | None:
        wait = self._rates.take_request(who)
        if wait <= 0:
            return None
        told = f"More than {self._site.rules.rate_per_minute} requests in a minute."
        return self._plain(429, told, f"Try again in {wait:.0f} s.")

    def _foreign_form_refusal(self, headers: Headers) -> tuple[int, str, str] | None:
        """Why a form cannot come from our own page, as far as the browser's headers tell (CSRF)."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        # A proxy may replace the host.
        own = {headers.get("host"), urlsplit(self._site.rules.page_url or "").netloc or None}
        told = None if origin is None else parts_of(origin)
        ours = origin is None or (told is not None and told.netloc in own)
        if ours and site in {None, "same-origin"}:
            return None
        title = "The form came from another site."
        return 403, title, "Open this page itself, and send it from here."

    def _length_refusal(self, headers: Headers) -> tuple[int, str, str] | None:
        # The form is read as a whole, so a body without a length could be of any size.
        length = headers.get("content-length")
        if length is None or not length.isdecimal():
            return 411, "The form came without its length.", "Send it from this page."
        if int(length) > self._site.rules.body_bytes:
            return (
                413,
                "The form is too long.",
                f"Send at most {self._site.rules.body_bytes} bytes.",
            )
        return None

    def _plain(
        self, status: int, title: str, cure: str, *, texts: Sequence[Written] = ()
    ) -> Response:
        body = rendered(
            "layout/refused.html",
            self._site.now(),
            title=title,
            cure=cure,
            detail="",
            not_taken=True,
            written=texts,
        )
        return HTMLResponse(body, status_code=status)


def _in_time(receive: Receive) -> Receive:
    """Wait for a form as long as for any body; raises `ApiProblem` if it comes too slowly."""
    until = asyncio.get_running_loop().time() + WITHIN_S
    more = True

    async def receiving() -> Message:
        nonlocal more
        if not more:
            return await receive()  # after the body comes the end of the connection
        try:
            async with asyncio.timeout_at(until):
                message = await receive()
        except TimeoutError:
            detail = f"The form did not come within {WITHIN_S:g} s."
            raise ApiProblem(TOO_LATE, "request_timeout", detail, "Send it again.") from None
        more = message.get("more_body", False)
        return message

    return receiving


async def _written(scope: Scope, receive: Receive) -> Sequence[Written]:
    """What a form held whose session has ended; its length was checked before."""
    request = Request(scope, receive)
    if int(request.headers["content-length"]) > MOST_SHOWN_BYTES:
        return ()
    try:
        async with request.form(max_files=0) as form:
            return written(texts_of(form))
    except HTTPException:
        return ()  # files, or no form at all


def _signed_out(headers: Headers) -> Response:
    """Make htmx send the whole page to the sign-in and back, as only a part of it was requested."""
    # A 303 would be followed by the script, which would put the whole form into the part.
    shown = parts_of(headers.get("hx-current-url", "/")) or urlsplit("/")
    back = (shown.path or "/") + (f"?{shown.query}" if shown.query else "")
    return Response(
        status_code=401, headers={"hx-redirect": f"{SIGN_IN}?next={quote(back, safe='')}"}
    )


def parts_of(address: str) -> SplitResult | None:
    """An address in its parts; None when it cannot be read, such as `http://[`."""
    try:
        return urlsplit(address)
    except ValueError:
        return None


def guarded(answer: Response) -> Response:
    """An answer that does not come through the entrance, with the headers that it would add."""
    for name, value in _HEADERS:
        answer.headers.setdefault(name.decode(), value.decode())
    return answer


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            # A route may be stricter, such as that of an attachment.
            had = {name.lower() for name, _ in message.get("headers", ())}
            more = [pair for pair in _HEADERS if pair[0] not in had]
            if message["status"] == TOO_LATE:  # the rest of the body would be read as a request
                more.append((b"connection", b"close"))
            message["headers"] = [*message.get("headers", ()), *more]
        await send(message)

    return sending


def _is_a_program(headers: Headers) -> bool:
    """Whether no person waits for a page.

    A proxy may give every request of a browser an `authorization`; browsers say `sec-fetch-mode`.
    """
    accepted = headers.get("accept", "")
    if "html" in accepted or "sec-fetch-mode" in headers:
        return False
    return "authorization" in headers or "json" in accepted


def away_page(now: datetime, *, detail: str, cure: str, reads: bool) -> HTMLResponse:
    """The answer in place of any page; one that was read comes back by itself.

    Args:
        now: the time.
        detail: what was found.
        cure: what mends it.
        reads: whether the request only reads, so that it may be asked again.
    """
    body = rendered(
        "layout/away.html", now, detail=detail, cure=cure, reads=reads, not_taken=not reads
    )
    headers = {AWAY: "store", "retry-after": RETRY_S}
    return HTMLResponse(body, status_code=503, headers=headers)
