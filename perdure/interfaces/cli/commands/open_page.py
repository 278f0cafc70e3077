"""Open the page in a browser, signed in."""

import secrets
import webbrowser
from datetime import timedelta
from typing import Annotated
from urllib.parse import quote

from cyclopts import Parameter

from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.domain.installation.access import SCOPES, ApiToken, digest_of, scopes_of
from perdure.interfaces.audit_trail import AuditTrail
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.layout import line
from perdure.interfaces.services import Services
from perdure.interfaces.web.session import TICKET_MINUTES, Ticket


async def open_page(
    run: str | None = None,
    /,
    *,
    scope: Annotated[tuple[str, ...], Parameter(name="--scope", negative="")] = SCOPES,
    url: str | None = None,
    show: Annotated[bool, Parameter(negative="")] = False,
    session: Given,
) -> None:
    """Open the page in the browser, signed in; the address works once, for two minutes.

    Args:
        run: The run to look at. Default: what waits for you, or all runs.
        scope: What the page may do in your name; may be repeated. Default: everything.
        url: Where the page is, if not at the API of this installation's services.
        show: Show the address and open no browser.
    """
    async with session.connected(start=True) as services:
        address = (url or await _address(session, services)).rstrip("/")
        path = "/"
        if run:
            # An id may hold a `+`, which is a space in a query.
            path = f"/runs/{quote(await services.gateway.resolve(run), safe='')}"
        now = session.context.now()
        token = ApiToken(
            id=secrets.token_hex(4),
            # A token's name has this bound, and a user's name has none.
            name=f"{session.context.user} at the page"[:100],
            scopes=scopes_of(scope),
            # Of a secret that nobody keeps: only the ticket opens a session.
            digest=digest_of(secrets.token_urlsafe(32)),
            created_at=now,
            expires_at=now + timedelta(minutes=TICKET_MINUTES),
        )
        await services.access.add_token(token)
        await AuditTrail(services.audit, now=session.context.now).note_token_change(
            "token_made", token, by=session.context.user
        )
        ticket = Ticket(token=token.id, digest=token.digest, until=token.expires_at or now)
        key = await services.access.signing_key()
    # Behind `#`, which browsers send to no server, so that no log of a proxy has it.
    link = f"{address}/sign-in?next={quote(path, safe='')}#ticket={ticket.text(key)}"
    opened = not show and session.output.is_terminal and webbrowser.open(link)
    told = "The page is open in your browser." if opened else f"Open this within 2 minutes: {link}"
    session.output.show(line(told), {"type": "page", "url": link, "opened": opened})


async def _address(session: Session, services: Services) -> str:
    """Where the services of this installation serve the page.

    Raises:
        ServiceUnavailable: none of them does, or not now.
    """
    address = services.endpoints.api_url
    if address is None:
        raise ServiceUnavailable(
            "No REST API runs here, which serves the page.",
            cure="Start one with `perdure up` or `perdure api serve`, which needs the extra "
            "`perdure[api]`; elsewhere name its address: perdure open --url http://HOST:8237.",
        )
    state = await session.context.state()
    # The other services run on without it, so that they are up says nothing of it.
    for part in state.parts if state is not None else ():
        if part.name == "api" and part.status != "running":
            why = f": {part.detail}" if part.detail else ""
            raise ServiceUnavailable(
                f"The REST API, which serves the page, does not run now ({part.status}{why}).",
                cure="Read `perdure logs api`, and try again once it runs.",
            )
    return address
