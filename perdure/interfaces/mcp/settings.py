"""What the MCP door is handed, and how it knows who asks."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from perdure.domain.foundation.errors import NotAllowed, PerdureError
from perdure.domain.installation.access import ApiToken, Scope
from perdure.interfaces.loop_service import LoopService
from perdure.interfaces.mcp.handler import Desk
from perdure.interfaces.places import hider
from perdure.interfaces.services import Services
from perdure.interfaces.tokens import caller_of

# Opens the services for one request; embedded ones are started first when it says so.
Opened = Callable[[bool], AbstractAsyncContextManager[Services]]
LoopsOf = Callable[[Services, str], LoopService]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSite:
    """One installation, as the MCP door sees it.

    Services are opened for each request: a client may keep the door open for days, in which
    embedded services end when nobody uses them, and start again.

    Args:
        opened: opens the services.
        loops_of: the loops in somebody's name.
        user: who steers where no token says it.
        tokens: whether every request must carry one (over HTTP).
        now: the clock.
        version: of the product.
        home: the installation's folder, which is not told over HTTP.
        rate_per_minute: requests of one token (or of one address without a usable one) a minute.
    """

    opened: Opened
    loops_of: LoopsOf
    user: str
    now: Callable[[], datetime]
    version: str
    tokens: bool = False
    rate_per_minute: int = 600
    home: str = ""

    @asynccontextmanager
    async def desk(
        self, headers: Mapping[str, str] | None, *, scope: Scope, start: bool = False
    ) -> AsyncGenerator[Desk]:
        """The way in for one request.

        Raises:
            NotAllowed: its token does not reach that far.
        """
        token = None
        if self.tokens:
            async with self.opened(False) as services:
                token = await self._caller(services, headers or {}, scope)
        by = self.user if token is None else token.name
        async with self.opened(start) as services:
            yield Desk(services, self.loops_of(services, by), token=token, now=self.now())

    def told(self, error: PerdureError) -> str:
        """An error in words; over the network without places of this host."""
        return hider(self.home)(str(error)) if self.tokens else str(error)

    async def _caller(
        self, services: Services, headers: Mapping[str, str], scope: Scope
    ) -> ApiToken:
        token, ended = await caller_of(
            headers.get("authorization"), services.access, now=self.now()
        )
        if token is None:
            make = "Make one: perdure api token create NAME --scope read --scope operate"
            detail, cure = ended or ("The request came without a usable token.", make)
            raise NotAllowed(detail, cure=cure)
        if scope not in token.grants:
            raise NotAllowed(
                f"The token {token.name!r} lacks the scope {scope}.",
                cure=f"Make one with it: perdure api token create NAME --scope {scope}",
            )
        return token
