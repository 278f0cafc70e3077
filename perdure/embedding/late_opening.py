"""The steps on the queues of a user's own workers, whose stores are opened when a worker runs.

The worker is configured before that, and its installation may be away when it starts. A task that
comes too early is tried again by the server: nothing remembers that an opening failed.
"""

import asyncio
from collections.abc import Callable

from temporalio import activity
from temporalio.client import Client

from perdure.activities.support.error_mapping import translated
from perdure.composition.task_steps import TaskSteps
from perdure.domain.foundation.errors import StoreAway
from perdure.domain.run.output_request import ReadOutputRequest
from perdure.domain.run.task_start import OpenTaskReport, OpenTaskRequest

Place = tuple[asyncio.AbstractEventLoop, str, str]


def place_of(client: Client) -> Place:
    """Where its loops are served: stores belong to an event loop, queues to a namespace."""
    server = client.service_client.config.target_host
    return asyncio.get_running_loop(), server, client.namespace


class LateOpening:
    """The steps for each place; they find what serves the loops there at each call."""

    def __init__(self) -> None:
        self._places: dict[Place, Callable[[], TaskSteps | None]] = {}

    def begin(self, place: Place, steps: Callable[[], TaskSteps | None]) -> None:
        """Take the steps of a place from here; None as long as its stores are not open."""
        self._places[place] = steps

    def end(self, place: Place) -> None:
        """Nothing serves loops at a place any more."""
        self._places.pop(place, None)

    @activity.defn
    async def open_task(self, step: OpenTaskRequest) -> OpenTaskReport:
        return await (await self._steps()).opening.open_task(step)

    @activity.defn
    async def read_run_output(self, step: ReadOutputRequest) -> str:
        return await (await self._steps()).reading.read_run_output(step)

    # Only here: the steps that it finds translate their errors themselves.
    @translated
    async def _steps(self) -> TaskSteps:
        # By the client of this very call: one plugin may serve several servers and namespaces.
        found = self._places.get(place_of(activity.client()))
        steps = None if found is None else found()
        if steps is None:
            raise StoreAway(
                "The installation of the loops is not open in this worker; the step is tried again."
            )
        return steps
