"""Sign-in with an API token or with a ticket of `perdure open`; sign-out."""

import secrets
from datetime import timedelta

from fastapi import APIRouter, Request
from fastapi.responses import Response

from perdure.domain.installation.access import ApiToken
from perdure.interfaces.rest.callers import site_of
from perdure.interfaces.tokens import caller_of
from perdure.interfaces.web.cookies import is_secure
from perdure.interfaces.web.entrance import SIGN_IN
from perdure.interfaces.web.session import SESSION_HOURS, Ticket
from perdure.interfaces.web.sign_in.opening import (
    close_page_session,
    form,
    open_page_session,
    own,
    refused,
)
from perdure.interfaces.web.visit import Fields

router = APIRouter(prefix=SIGN_IN)


@router.get("")
async def show(request: Request, next: str = "/") -> Response:
    """Show the form for a token; with a ticket in the fragment, the page's script sends it."""
    return form(request, next=own(next))


@router.post("")
async def with_token(request: Request, fields: Fields) -> Response:
    """Open a session for an API token."""
    site, given = site_of(request), f"Bearer {fields.get('token', '').strip()}"
    token, ended = await caller_of(given, site.services.access, now=site.now())
    if token is not None:
        return await _opened(request, token, fields)
    told = (
        "There is no such token, or its secret is another one.",
        "Make one: perdure api token create NAME",
    )
    detail, cure = ended or told
    return await refused(request, detail, cure, shown=given, next=own(fields.get("next", "/")))


@router.post("/ticket")
async def with_ticket(request: Request, fields: Fields) -> Response:
    """Open the session of a ticket; each ticket works once."""
    site = site_of(request)
    access, now = site.services.access, site.now()
    ticket = Ticket.read(fields.get("ticket", ""), await access.signing_key(), now=now)
    token = None if ticket is None else await access.token(ticket.token)
    if ticket is not None and token is not None and token.usable(now):
        # Nobody ever learns the new secret. It changes the digest, so the ticket works only once.
        renewed = token.rotated(
            secrets.token_urlsafe(32),
            at=now,
            expires_at=now + timedelta(hours=SESSION_HOURS),
            overlap=timedelta(0),
        )
        if await access.rotate_token(renewed, instead_of=ticket.digest):
            return await _opened(request, renewed, fields)
    told = "This sign-in was used before, or is more than two minutes old."
    return await refused(request, told, "Make another one: perdure open")


@router.post("/out")
async def sign_out(request: Request) -> Response:
    """End the session, in this browser and for every copy of its cookie."""
    return await close_page_session(request)


async def _opened(request: Request, token: ApiToken, fields: Fields) -> Response:
    secure = is_secure(request.scope, site_of(request).rules.page_url)
    return await open_page_session(request, token, next=own(fields.get("next", "/")), secure=secure)
