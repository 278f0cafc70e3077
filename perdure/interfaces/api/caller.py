"""What a route is handed: the installation, and a caller whose token has the scope it needs."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from perdure.domain.access import ApiToken, Scope
from perdure.domain.ports import StoredRun
from perdure.interfaces.api.doorkeeper import CALLER
from perdure.interfaces.api.facts import ApiSite
from perdure.interfaces.api.problems import Refused
from perdure.interfaces.gateway.faults import unknown_run

_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    token: ApiToken

    @property
    def name(self) -> str:
        """As audit trails show it."""
        return f"{self.token.name} ({self.token.id})"

    def has(self, scope: Scope) -> bool:
        """Whether the token has a scope."""
        return scope in self.token.grants

    def need(self, scope: Scope, why: str = "") -> None:
        """Refuse a caller whose token lacks a scope."""
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
    """A dependency: the caller, refused without the scope."""

    def caller(request: Request) -> Caller:
        token = request.scope.get(CALLER)
        if not isinstance(token, ApiToken):
            raise Refused(401, "unauthorized", "The request came with no token.")
        found = Caller(token)
        found.need(scope)
        return found

    return caller


Site = Annotated[ApiSite, Depends(site_of)]
Reader = Annotated[Caller, Depends(needs("read"))]
Operator = Annotated[Caller, Depends(needs("operate"))]
Answerer = Annotated[Caller, Depends(needs("answer"))]
Admin = Annotated[Caller, Depends(needs("admin"))]


async def known_run(site: ApiSite, run: str) -> StoredRun:
    """The row of a run of this installation.

    Ids are exact, never a beginning; a run that only the Temporal server knows belongs to somebody
    else.

    Raises:
        NotFound: there is none.
    """
    row = await site.services.records.run(run) if _ID.fullmatch(run) else None
    if row is None:
        raise unknown_run(run[:80])
    return row
