"""Signing in with an API token, or with the ticket that `perdure open` made; and signing out."""

import secrets
from datetime import timedelta
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from perdure.domain.installation.access import ApiToken
from perdure.interfaces.audit_trail import AuditTrail
from perdure.interfaces.rest.settings import ApiSite
from perdure.interfaces.tokens import caller_of
from perdure.interfaces.web.entrance import SIGN_IN
from perdure.interfaces.web.rendering import rendered
from perdure.interfaces.web.session import COOKIE, SESSION_HOURS, Session, Ticket
from perdure.interfaces.web.visit import SEE_OTHER, Fields, site_of

INTERFACE = "page"
router = APIRouter(prefix=SIGN_IN)


@router.get("")
async def show(request: Request, next: str = "/") -> Response:
    """The form for a token; a ticket in the fragment is sent by the page's script."""
    return _form(site_of(request), next=_own(next))


@router.post("")
async def with_token(request: Request, fields: Fields) -> Response:
    """Open a session for an API token."""
    site, given = site_of(request), f"Bearer {fields.get('token', '').strip()}"
    token, ended = await caller_of(given, site.services.access, now=site.now())
    if token is not None:
        return await _opened(request, token, next=_own(fields.get("next", "/")))
    await _audit(site).refused_login(given, interface=INTERFACE, address=_address(request))
    told = (
        "There is no such token, or its secret is another one.",
        "Make one: perdure api token create NAME",
    )
    detail, cure = ended or told
    return _form(site, next=_own(fields.get("next", "/")), detail=detail, cure=cure, status=401)


@router.post("/ticket")
async def with_ticket(request: Request, fields: Fields) -> Response:
    """Open the session that a ticket stands for; each ticket opens one."""
    site = site_of(request)
    access, now = site.services.access, site.now()
    ticket = Ticket.read(fields.get("ticket", ""), await access.signing_key(), now=now)
    token = None if ticket is None else await access.token(ticket.token)
    if ticket is not None and token is not None and token.usable(now):
        # Nobody ever learns this secret; with another digest, the ticket opens nothing more.
        renewed = token.rotated(
            secrets.token_urlsafe(32),
            at=now,
            expires_at=now + timedelta(hours=SESSION_HOURS),
            overlap=timedelta(0),
        )
        if await access.rotate_token(renewed, instead_of=ticket.digest):
            return await _opened(request, renewed, next=_own(fields.get("next", "/")))
    await _audit(site).refused_login(None, interface=INTERFACE, address=_address(request))
    told = "This sign-in was used before, or is more than two minutes old."
    return _form(site, detail=told, cure="Make another one: perdure open", status=401)


@router.post("/out")
async def sign_out() -> Response:
    """End the session in this browser."""
    answer = RedirectResponse(SIGN_IN, status_code=SEE_OTHER)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


async def _opened(request: Request, token: ApiToken, *, next: str) -> Response:
    site = site_of(request)
    await _audit(site).used(token, interface=INTERFACE, address=_address(request))
    key = await site.services.access.signing_key()
    session = Session.of(token, mark=secrets.token_urlsafe(16), now=site.now())
    answer = RedirectResponse(next, status_code=SEE_OTHER)
    answer.set_cookie(
        COOKIE,
        session.text(key),
        max_age=SESSION_HOURS * 3600,
        httponly=True,
        samesite="strict",
        # This process speaks plain HTTP; that a proxy before it speaks TLS, the browser says.
        secure=request.headers.get("origin", "").startswith("https:"),
    )
    return answer


def _form(
    site: ApiSite, *, next: str = "/", detail: str = "", cure: str = "", status: int = 200
) -> HTMLResponse:
    body = rendered("sign_in/sign_in.html", site.now(), next=next, detail=detail, cure=cure)
    return HTMLResponse(body, status_code=status)


def _own(address: str) -> str:
    """An address of this page; whatever leads elsewhere becomes the first view."""
    parts = urlsplit(address)
    led = parts.scheme or parts.netloc or not address.startswith("/") or "\\" in address
    return "/" if led or address.startswith("//") else address


def _audit(site: ApiSite) -> AuditTrail:
    return AuditTrail(site.services.audit, now=site.now)


def _address(request: Request) -> str:
    return f"address {request.client.host if request.client else 'unknown'}"
