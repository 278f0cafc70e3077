"""What waits at the server: runs that wait for people, and tasks for workers."""

import asyncio
from collections.abc import Sequence

from perdure.domain.foundation.errors import PerdureError, ServiceUnavailable, StoreError
from perdure.domain.foundation.names import OPEN_EXECUTION, loops_queue, models_queue, tools_queue
from perdure.domain.installation.model_rates import queue_of_rate
from perdure.domain.ports import RecordStore
from perdure.domain.run.figures import ClockLoad, QueueLoad, ServerLoad
from perdure.gateway.clock_load import ClockReader
from perdure.gateway.deployments import Deployments
from perdure.gateway.diagnostics import REPORTED
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.visibility import quoted
from perdure.gateway.worker_probe import Backlog

# The greatest number of workspaces in use that are read: each takes a request to the server.
WORKSPACES = 50
LOOPS, MODELS, TOOLS = "loops", "models", "tools"


class LoadReader:
    """Asks the server for counts and backlogs: a bounded number of requests, none of them billed.

    To probe the workers would be more reliable than the server's list of pollers. But a probe is an
    activity, and monitoring asks several times a minute.
    """

    def __init__(
        self,
        *,
        server: TemporalGateway,
        records: RecordStore,
        rates: Sequence[str] = (),
        deployments: Deployments | None = None,
        clock: ClockReader | None = None,
    ) -> None:
        self._server = server
        self._rates = rates
        self._deployments = deployments
        self._clock = clock
        self._records = records
        self._installation: str | None = None

    async def read(self) -> ServerLoad:
        """See `Gateway.load`."""
        if self._installation is None:
            self._installation = await self._records.installation()
        installation = self._installation
        loops = loops_queue(installation)
        unended = f"TaskQueue = {quoted(loops)} AND {OPEN_EXECUTION}"
        tools = [tools_queue(installation, one) for one in (None, *await self._workspaces())]
        models = [
            models_queue(installation),
            *(queue_of_rate(installation, one) for one in self._rates),
        ]
        waiting, failing, stranded, clock = await asyncio.gather(
            self._server.count(f"{unended} AND PerdureLifecycle = 'waiting'"),
            self._failing(unended),
            self._stranded(),
            self._by_clock(),
        )
        ask = self._server.backlog
        decided, of_loops, *of_steps = await asyncio.gather(
            ask(loops, workflows=True), ask(loops), *(ask(queue) for queue in (*models, *tools))
        )
        of_models, of_tools = of_steps[: len(models)], of_steps[len(models) :]
        return ServerLoad(
            waiting=waiting,
            failing=failing,
            stranded=stranded,
            clock=clock,
            queues=(
                _together(LOOPS, [decided, of_loops]),
                _together(MODELS, of_models),
                _together(TOOLS, of_tools),
            ),
        )

    async def _workspaces(self) -> list[str]:
        """Workspaces in use; none while the store is away, as that must not hide the server."""
        try:
            uses = await self._records.workspace_uses()
        except StoreError:
            return []
        return [use.id for use in uses if use.busy][:WORKSPACES]

    async def _failing(self, unended: str) -> int | None:
        """How many failing runs the server reports; None if it lacks the search attribute."""
        try:
            return await self._server.count(f"{unended} AND {REPORTED} IS NOT NULL")
        # A server that is away must not look like one without that attribute.
        except ServiceUnavailable:
            raise
        except PerdureError:
            return None

    async def _by_clock(self) -> ClockLoad:
        return ClockLoad() if self._clock is None else await self._clock.read()

    async def _stranded(self) -> int | None:
        """How many runs wait for a build without workers; None without worker versioning."""
        if self._deployments is None:
            return None
        try:
            return sum(build.runs for build in (await self._deployments.status()).stranded)
        except PerdureError:
            return None  # the other requests show whether the server is there


def _together(name: str, backlogs: Sequence[Backlog]) -> QueueLoad:
    return QueueLoad(
        queue=name,
        backlog=sum(one.tasks for one in backlogs),
        age_s=max(one.age_s for one in backlogs),
        pollers=len(frozenset[str]().union(*(one.pollers for one in backlogs))),
    )
