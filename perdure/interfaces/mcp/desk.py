"""One request at the MCP door: what its token may start, see and steer.

A caller without a token sits at this machine's keyboard and reaches what the command line does. A
token reaches the runs of this installation alone: other installations may share the server.
"""

from dataclasses import dataclass
from datetime import datetime

from perdure.domain.access import ApiToken, StartedBy
from perdure.domain.errors import PerdureError
from perdure.domain.loops import (
    ALL,
    LoopAsk,
    LoopControl,
    LoopControlled,
    LoopRows,
    LoopStarted,
    action_of,
)
from perdure.domain.status import RunStatus
from perdure.interfaces.gateway.facts import OpenGates
from perdure.interfaces.gateway.faults import unknown_run
from perdure.interfaces.services import Services

LOOKED_AT = 500


@dataclass(frozen=True, slots=True)
class Desk:
    """The services, and the loops in the caller's name.

    Args:
        services: of the installation.
        loops: what can be done with loops.
        token: the caller's; None over standard streams.
        now: when the request came.
    """

    services: Services
    loops: LoopControl
    token: ApiToken | None
    now: datetime

    async def start(self, ask: LoopAsk) -> LoopStarted:
        """Start a loop, and note whose it is.

        Raises:
            NotAllowed: it takes the scope `execute`, which the token lacks.
        """
        if self.token is None:
            return await self.loops.start(ask)
        trusted = "execute" in self.token.grants
        started = await self.loops.start(ask.model_copy(update={"trusted": trusted}))
        claim = StartedBy(run=started.id, token=self.token.id, at=self.now)
        await self.services.access.claim_start(claim)
        return started

    async def rows(self, status: str | None) -> LoopRows:
        """The newest loops."""
        found = await self.loops.rows(status)
        ours = tuple([row for row in found.loops if await self._is_ours(row.id)])
        return found.model_copy(update={"loops": ours})

    async def gates(self) -> OpenGates:
        """What waits for a person."""
        found = await self.services.gateway.gates()
        ours = tuple([gate for gate in found.gates if await self._is_ours(gate.run)])
        unread = tuple([run for run in found.unread if await self._is_ours(run)])
        return found.model_copy(update={"gates": ours, "unread": unread})

    async def status(self, run: str) -> RunStatus:
        """Where a loop stands; raises `NotFound`."""
        return await self.loops.status(await self._ours(run))

    async def control(self, action: str, run: str) -> LoopControlled:
        """Steer one loop, or `all` open ones."""
        if run != ALL:
            return await self.loops.control(action, await self._ours(run))
        if self.token is None or action_of(action) == "retry":
            return await self.loops.control(action, run)
        return await self._control_all(action)

    async def _control_all(self, action: str) -> LoopControlled:
        taken: list[str] = []
        refused: dict[str, str] = {}
        for row in await self.services.records.find_runs(prefix="roles-", limit=LOOKED_AT):
            if row.ended_at is not None or row.parent is not None:
                continue
            try:
                taken += (await self.loops.control(action, row.id)).taken
            except PerdureError as error:
                refused[row.id] = error.message
        return LoopControlled(action=action_of(action), taken=tuple(taken), refused=refused)

    async def _ours(self, run: str) -> str:
        resolved = await self.services.gateway.resolve(run)
        if not await self._is_ours(resolved):
            raise unknown_run(run[:80])
        return resolved

    async def _is_ours(self, run: str) -> bool:
        return self.token is None or await self.services.records.run(run) is not None
