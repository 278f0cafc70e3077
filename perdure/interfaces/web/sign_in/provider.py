"""Signing in at an identity provider: the way there, and the way back."""

import secrets
from datetime import timedelta
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from perdure.domain.foundation.errors import NotAllowed, PerdureError, ServiceUnavailable
from perdure.domain.installation.access import ApiToken
from perdure.domain.installation.single_sign_on import Attempt, Person, SingleSignOn, renewed
from perdure.interfaces.rest.callers import site_of
from perdure.interfaces.rest.settings import ApiSite
from perdure.interfaces.web.cookies import drop_cookie, given_cookies, is_secure, set_cookie
from perdure.interfaces.web.entrance import SIGN_IN
from perdure.interfaces.web.rendering import rendered
from perdure.interfaces.web.session import SESSION_HOURS, SignInUnderWay
from perdure.interfaces.web.sign_in.opening import open_page_session, own, refused
from perdure.interfaces.web.visit import SEE_OTHER

PATH = f"{SIGN_IN}/provider"
BACK = f"{PATH}/back"
MINUTES = 10
# Browsers keep no cookie of more than 4 KiB.
LONGEST_NEXT = 1_000
TRIES = 3
router = APIRouter(prefix=PATH)


@router.get("")
async def leave(request: Request, next: str = "/") -> Response:
    """Redirect the browser to the provider."""
    site, sign_on = _offered(request)
    attempt = Attempt(
        state=secrets.token_urlsafe(32),
        nonce=secrets.token_urlsafe(32),
        verifier=secrets.token_urlsafe(48),
        back=(site.rules.page_url or str(request.base_url).rstrip("/")) + BACK,
    )
    try:
        address = await sign_on.provider.address(attempt)
    except PerdureError as error:
        return await refused(request, error.message, error.cure, next=own(next), status=503)
    led = own(next)
    outbound = SignInUnderWay(
        attempt=attempt,
        next=led if len(led) <= LONGEST_NEXT else "/",
        until=site.now() + timedelta(minutes=MINUTES),
    )
    answer = RedirectResponse(address, status_code=SEE_OTHER)
    key = await site.services.access.signing_key()
    text, seconds = outbound.text(key), MINUTES * 60
    set_cookie(answer, "sign_in", text, key=key, secure=_secure(request), seconds=seconds)
    return answer


@router.get("/back")
async def come_back(request: Request) -> Response:
    """Check the provider's answer, and open a session for the person that it names."""
    site, sign_on = _offered(request)
    if request.headers.get("sec-fetch-site") == "cross-site":
        # Browsers do not send a `SameSite=Strict` cookie on the way back from another site. This
        # answer makes the browser ask again from here, with the cookie.
        return HTMLResponse(rendered("layout/again.html", site.now()))
    key = await site.services.access.signing_key()
    given = given_cookies("sign_in", key, request.scope, site.rules.page_url)
    # The first one: with TLS, only this host can have set it.
    outbound = SignInUnderWay.read(given[0], key, now=site.now()) if given else None
    answer = await _arrived(request, site, sign_on, outbound)
    # However it ended: an attempt is good for one answer.
    drop_cookie(answer, "sign_in", key=key)
    return answer


async def _arrived(
    request: Request, site: ApiSite, sign_on: SingleSignOn, outbound: SignInUnderWay | None
) -> Response:
    if outbound is None:
        told = "This sign-in did not begin in this browser, or more than ten minutes ago."
        return await refused(request, told, "Sign in once more.")
    try:
        if request.query_params.get("state") != outbound.attempt.state:
            raise NotAllowed("The answer is of another sign-in.", cure="Sign in once more.")
        person = await sign_on.provider.person(outbound.attempt, str(request.url))
        token = await _token(site, sign_on, person)
    except ServiceUnavailable as error:
        return await refused(request, error.message, error.cure, status=503)
    except NotAllowed as error:
        return await refused(request, error.message, error.cure, status=403)
    return await open_page_session(request, token, next=outbound.next, secure=_secure(request))


async def _token(site: ApiSite, sign_on: SingleSignOn, person: Person) -> ApiToken:
    """The token for a person, created or renewed."""
    access = site.services.access
    wanted = sign_on.token(
        person, secret=secrets.token_urlsafe(32), now=site.now(), hours=SESSION_HOURS
    )
    for _ in range(TRIES):
        known = await access.token(wanted.id)
        if known is None:
            await access.add_token(wanted)
            return wanted
        token = renewed(known, wanted)
        # Only in place of what was read: the token may be revoked or changed at this moment.
        if await access.rotate_token(token, instead_of=known.digest):
            return token
    raise ServiceUnavailable(
        "Your access was changed several times at this moment.", cure="Sign in once more."
    )


def _secure(request: Request) -> bool:
    """Whether the browser speaks TLS, also where the provider leads back to: that of the rules."""
    page_url = site_of(request).rules.page_url
    return urlsplit(page_url or "").scheme == "https" or is_secure(request.scope, page_url)


def _offered(request: Request) -> tuple[ApiSite, SingleSignOn]:
    site = site_of(request)
    if site.single_sign_on is None:
        raise HTTPException(404)
    return site, site.single_sign_on
