"""The end of every sign-in: a session, or the form with the problem."""

import secrets
from urllib.parse import urlsplit

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from perdure.domain.installation.access import ApiToken
from perdure.interfaces.rest.callers import site_of
from perdure.interfaces.rest.connections import address_of
from perdure.interfaces.web.cookies import drop_cookie, given_cookies, set_cookie
from perdure.interfaces.web.entrance import SIGN_IN, parts_of
from perdure.interfaces.web.rendering import rendered
from perdure.interfaces.web.session import SESSION_HOURS, Session
from perdure.interfaces.web.visit import SEE_OTHER

INTERFACE = "page"


async def open_page_session(
    request: Request, token: ApiToken, *, next: str, secure: bool
) -> Response:
    """Open a session for a token, and end the one that the browser had.

    Args:
        request: the sign-in.
        token: what the session stands for.
        next: where the page goes on.
        secure: whether the browser speaks TLS with the page.
    """
    site = site_of(request)
    await site.trail.note_token_use(token, interface=INTERFACE, address=address_of(request.scope))
    key = await site.services.access.signing_key()
    # Its cookie is replaced below, but a copy of it would still be good.
    await _end_sessions(request, key)
    session = Session.of(token, mark=secrets.token_urlsafe(16), now=site.now())
    answer = RedirectResponse(next, status_code=SEE_OTHER)
    text, seconds = session.text(key), SESSION_HOURS * 3600
    set_cookie(answer, "session", text, key=key, secure=secure, seconds=seconds)
    return answer


async def close_page_session(request: Request) -> Response:
    """End the browser's session in the store and in the browser, and go to the form.

    While the store is away this fails, and the cookie stays, so that it can be tried again.
    """
    site = site_of(request)
    key = await site.services.access.signing_key()
    for token in await _end_sessions(request, key):
        address = address_of(request.scope)
        await site.trail.note_sign_out(token, interface=INTERFACE, address=address)
    answer = RedirectResponse(SIGN_IN, status_code=SEE_OTHER)
    drop_cookie(answer, "session", key=key)
    return answer


async def _end_sessions(request: Request, key: bytes) -> list[ApiToken]:
    """End the sessions that the browser sent; of those that were open, the tokens."""
    site = site_of(request)
    access, now = site.services.access, site.now()
    tokens = []
    for text in given_cookies("session", key, request.scope, site.rules.page_url):
        session = Session.read(text, key, now=now)
        if session is not None:
            tokens += filter(None, [await session.holder(access, now=now)])
            await session.end(access, now=now)
    return tokens


async def refused(
    request: Request,
    detail: str,
    cure: str,
    *,
    shown: str | None = None,
    next: str = "/",
    status: int = 401,
) -> HTMLResponse:
    """The form with the problem, which also goes to the audit trail.

    Args:
        request: the refused request.
        detail: what was found.
        cure: what to do next.
        shown: the `authorization` that was tried, if it was a token.
        next: where the page goes on after a sign-in.
        status: the HTTP status.
    """
    trail = site_of(request).trail
    await trail.note_refused_login(shown, interface=INTERFACE, address=address_of(request.scope))
    return form(request, next=next, detail=detail, cure=cure, status=status)


def form(
    request: Request, *, next: str = "/", detail: str = "", cure: str = "", status: int = 200
) -> HTMLResponse:
    """The form for a token, with a link to the identity provider if there is one."""
    site = site_of(request)
    sign_on = site.single_sign_on
    body = rendered(
        "sign_in/sign_in.html",
        site.now(),
        next=next,
        detail=detail,
        cure=cure,
        provider="" if sign_on is None else urlsplit(sign_on.provider.issuer).netloc,
    )
    return HTMLResponse(body, status_code=status)


def own(address: str) -> str:
    """The address if it is on this page, else `/`: a sign-in must not lead to another site."""
    parts = parts_of(address)
    if parts is None:
        return "/"
    # Browsers read a backslash as a slash, and `//host` as an address on another host.
    led = parts.scheme or parts.netloc or not address.startswith("/") or "\\" in address
    return "/" if led or address.startswith("//") else address
