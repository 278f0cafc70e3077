"""What a route gets: the installation, and a caller whose token has the required scope."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from perdure.domain.foundation.errors import StoreAway
from perdure.domain.foundation.names import RUN_ID
from perdure.domain.installation.access import ApiToken, Scope
from perdure.domain.run.status import StoredRun
from perdure.gateway.error_mapping import unknown_run
from perdure.interfaces.rest.auth_middleware import CALLER, DOCUMENT_PATH
from perdure.interfaces.rest.error_responses import Refused
from perdure.interfaces.rest.settings import ApiSite
from perdure.interfaces.tokens import caller_of, reaches

# The routes open to bound tokens besides those of their own runs; the lists show only what the
# token reaches.
FOR_BOUND = frozenset(
    {
        ("GET", "/healthz"),
        ("HEAD", "/healthz"),
        ("GET", "/readyz"),
        ("HEAD", "/readyz"),
        ("GET", DOCUMENT_PATH),
        ("GET", "/api/v1/loops"),
        ("POST", "/api/v1/loops"),
        ("POST", "/api/v1/loops/plan"),
        ("GET", "/api/v1/gates"),
        ("GET", "/api/v1/loops/definitions"),
        ("GET", "/api/v1/loops/definitions/{name}"),
        # What comes with Perdure is of no run; the page's form of a start needs it.
        ("GET", "/api/v1/tasks"),
        ("GET", "/api/v1/tasks/{name}"),
    }
)
# How long a stream goes on at most after its token was revoked, while it has something to send.
ADMITTED_ANEW_S = 5.0


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request, known by its token."""

    token: ApiToken

    @property
    def name(self) -> str:
        """The name in the audit trail."""
        return f"{self.token.name} ({self.token.id})"

    def has(self, scope: Scope) -> bool:
        return scope in self.token.grants

    async def sees(self, site: ApiSite, run: str) -> bool:
        """Whether a run belongs to this installation and the token reaches it."""
        return await reaches(site.services, self.token, run)

    def need(self, scope: Scope, why: str = "") -> None:
        """Refuse the caller if the token lacks a scope."""
        if not self.has(scope):
            raise Refused(
                403,
                "insufficient_scope",
                f"The token {self.token.name!r} lacks the scope {scope}.{why}",
                cure=f"Use a token with it: perdure api token create NAME --scope {scope}",
                headers={"www-authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'},
            )


def site_of(request: Request) -> ApiSite:
    """The installation that the application serves."""
    site = request.app.state.site
    assert isinstance(site, ApiSite)
    return site


def needs(scope: Scope) -> Callable[[Request], Caller]:
    """A dependency that returns the caller, or refuses one without the scope."""

    def caller(request: Request) -> Caller:
        token = request.scope.get(CALLER)
        if not isinstance(token, ApiToken):
            raise Refused(401, "unauthorized", "The request has no token.")
        found = Caller(token)
        found.need(scope)
        return found

    return caller


async def require_within_reach(request: Request) -> None:
    """Let a bound token use only the runs it is bound to, and the routes in `FOR_BOUND`.

    A run out of its reach is reported as not found, so that its existence stays hidden.
    """
    token = request.scope.get(CALLER)
    if not isinstance(token, ApiToken) or not token.bound:
        return
    run = request.path_params.get("run")
    if run is not None:
        if not (RUN_ID.fullmatch(run) and await reaches(site_of(request).services, token, run)):
            raise unknown_run(run[:80])
        return
    route = request.scope.get("route")
    if (request.method, getattr(route, "path", "")) not in FOR_BOUND:
        raise Refused(
            403,
            "bound_token",
            f"The token {token.name!r} is bound to runs or folders; this is of all of them.",
            cure="Use a token that is not bound: perdure api token create NAME",
        )


async def while_admitted(
    parts: AsyncGenerator[bytes], request: Request, *, every_s: float = ADMITTED_ANEW_S
) -> AsyncGenerator[bytes]:
    """The parts of a long stream, until the token that asked for it would no longer be let in.

    Args:
        parts: what is sent; it needs a part now and then, such as a heartbeat, to be ended.
        request: the request for the stream.
        every_s: seconds between two looks at the token.
    """
    clock = asyncio.get_running_loop().time
    sure_at = clock()
    async with aclosing(parts):
        async for part in parts:
            if clock() - sure_at >= every_s:
                if not await _still_admitted(request):
                    return
                sure_at = clock()
            yield part


async def _still_admitted(request: Request) -> bool:
    given = request.headers.get("authorization")
    if given is None:
        return True  # a request of the page, which looks at the visitor's session itself
    site = site_of(request)
    try:
        token, _ = await caller_of(given, site.services.access, now=site.now())
    except StoreAway:
        return True  # a browser's `EventSource` that is answered 503 later never comes back
    return token is not None


Site = Annotated[ApiSite, Depends(site_of)]
Reader = Annotated[Caller, Depends(needs("read"))]
Operator = Annotated[Caller, Depends(needs("operate"))]
Answerer = Annotated[Caller, Depends(needs("answer"))]
Admin = Annotated[Caller, Depends(needs("admin"))]


async def note_requester(site: ApiSite, caller: Caller, source: str) -> None:
    """Before the first run of a source: whoever asks for the runs does not approve for them."""
    await site.services.access.note_requester(source, caller.token.id, at=site.now())


async def known_run(site: ApiSite, run: str) -> StoredRun:
    """The row of a run of this installation.

    The id must be exact, not a beginning. A run that only the Temporal server knows belongs to
    another installation.

    Raises:
        NotFound: there is no such run.
    """
    row = await site.services.records.run(run) if RUN_ID.fullmatch(run) else None
    if row is None:
        raise unknown_run(run[:80])
    return row
