"""Rolling upgrades of workers: which builds serve, begin new runs, or may end."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.foundation.errors import (
    InvalidInput,
    NotAllowed,
    NotFound,
    PerdureError,
    ServiceUnavailable,
)
from perdure.domain.foundation.names import loops_queue
from perdure.domain.installation.deployment import Build, Deployment, Drained
from perdure.domain.ports import RecordStore
from perdure.gateway import deployment_calls
from perdure.gateway.deployment_calls import Described, Unversioned
from perdure.gateway.execution_queries import count_of
from perdure.gateway.repair import WhyNot
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.visibility import executions_of
from perdure.gateway.worker_probe import workers_by_build

Change = Callable[[Client, str], Awaitable[None]]
UNNAMED = "PERDURE_DEPLOYMENT is not set: workers register no version, and any takes any run."
NAME_IT = "Name a deployment, the same for all workers and commands of this installation."
REGISTERED_WITHIN_S = 15.0
REGISTERED_LOOK_S = 0.5
# The server refuses a build without workers, and a change that conflicts with another one.
_REFUSED = frozenset({RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.ABORTED})


@dataclass(frozen=True, kw_only=True)
class Deployments:
    """The worker deployment of one installation.

    Args:
        server: the connection.
        records: has the id of the installation, and so the queue of its workers.
        name: the name of the deployment, or None.
        own: the build id of this code.
        why_not: says why this code does not replay a history.
        now: the clock.
    """

    server: TemporalGateway
    records: RecordStore
    name: str | None
    own: str
    why_not: WhyNot
    now: Callable[[], datetime]

    async def status(self) -> Deployment:
        """The builds with their workers and runs, also deleted ones to which runs are pinned.

        Raises:
            InvalidInput: the settings name no deployment.
            NotFound: no worker has registered with it.
            ServiceUnavailable: the server does not support worker versioning.
        """
        try:
            kept = (await self._described()).builds
        except NotFound:
            if not await self._deleted(()):
                raise
            kept = ()
        deleted = await self._deleted([build.id for build in kept])
        builds = await self._counted((*kept, *deleted))
        return Deployment(name=self._chosen_name(), own=self.own, builds=builds)

    async def elsewhere(self) -> Mapping[str, int]:
        """Other deployments to which open runs are pinned, with how many runs.

        No worker of this deployment serves them, and none that has no deployment. Empty where the
        server keeps no versions of workers.
        """
        queue = loops_queue(await self.records.installation())
        served, found = () if self.name is None else (self.name,), dict[str, int]()
        while True:
            others = deployment_calls.pinned_apart(queue, (*served, *found))
            try:
                page, _ = await self.server.page(others, limit=1)
                name = page[0].text(deployment_calls.DEPLOYMENT) if page else None
                # A server that names one again would keep this going for ever.
                if name is None or name in found:
                    return found
                without = deployment_calls.pinned_apart(queue, (*served, *found, name))
                found[name] = await self.server.count(others) - await self.server.count(without)
            except ServiceUnavailable:
                raise
            except PerdureError:
                return found  # the server does not know what these queries ask for

    async def serving(self) -> str | None:
        client = await self.server.client()
        queue = loops_queue(await self.records.installation())
        with self.server.translate_errors():
            return await deployment_calls.serving(client, queue)

    async def promote(self, build: str | None = None) -> Deployment:
        """Make a build the current one; by default, the build of this code.

        New runs begin in it, and open runs move to it when they continue as new.

        Raises:
            NotFound: no such build has registered.
            NotAllowed: it has no workers, or somebody changed the deployment meanwhile.
        """
        wanted = build or self.own

        async def change(client: Client, name: str) -> None:
            # Looked up for each attempt, since its token holds only until the next change.
            described = await self._described()
            chosen = self._found(described, wanted)
            await deployment_calls.set_current(
                client, name, chosen.id, token=described.token, by=client.identity
            )

        await self._change(change, wanted)
        return await self.status()

    async def ramp(self, build: str, percent: float) -> Deployment:
        """Let a build begin a percentage of the new runs; 0 ends it. Raises as `promote`."""
        if not 0 <= percent <= 100:
            raise InvalidInput(f"{percent:g} is no percentage.", cure="Give 0 to 100.")

        async def change(client: Client, name: str) -> None:
            described = await self._described()
            chosen = self._found(described, build)
            if chosen.status == "current":
                raise NotAllowed(
                    f"{chosen.id} is current: it begins all runs that no ramp takes.",
                    cure="Ramp the build that is to follow it.",
                )
            await deployment_calls.set_ramping(
                client, name, chosen.id if percent else "", percent,
                token=described.token, by=client.identity,
            )  # fmt: skip

        await self._change(change, build)
        return await self.status()

    async def drain(self, build: str, *, move: bool = False) -> Drained:
        """Say how many runs still need a build; with `move`, move them to the current build.

        A run is moved only if this code, which must be the current build, replays its history.

        Raises:
            NotFound: no such build has registered.
            NotAllowed: it still begins runs, or this code is not the current build.
        """
        deployment = await self.status()
        leaving = _only(deployment, build)
        if leaving.status in {"current", "ramping"}:
            raise NotAllowed(
                f"{leaving.id} is {leaving.status}: it still begins runs.",
                cure="`perdure deploy promote` another build first, or end the ramp with "
                f"`perdure deploy ramp {leaving.id} 0`.",
            )
        if not move:
            return Drained(build=leaving)
        current = deployment.current
        if current is None or current.id != self.own:
            serves = "none" if current is None else current.id
            raise NotAllowed(
                f"Runs move only to code that is known to replay them. This command has the build "
                f"{self.own}; the current one is {serves}.",
                cure="Run the command of the current version, or promote this build.",
            )
        moved, stays = await self._move_runs(leaving)
        left = leaving.model_copy(update={"runs": max(0, leaving.runs - len(moved))})
        return Drained(build=left, moved=tuple(moved), stays=stays)

    async def _move_runs(self, leaving: Build) -> tuple[list[str], dict[str, str]]:
        """Move runs to the current build; returns those that moved, and why others stay."""
        client = await self.server.client()
        moved, stays = list[str](), dict[str, str]()
        with self.server.translate_errors():
            query = deployment_calls.pinned_to(self._chosen_name(), leaving.id)
            async for run in executions_of(self.server, query):
                # By its execution: one that continued as new meanwhile has another history, which
                # was not checked.
                handle = client.get_workflow_handle(run.id, run_id=run.execution)
                history = await handle.fetch_history()
                why = await self.why_not(run.id, history.to_json().encode())
                if why is not None:
                    stays[run.id] = why
                    continue
                try:
                    await deployment_calls.move(
                        client, self._chosen_name(), self.own, run=run.id, execution=run.execution
                    )
                except RPCError as error:
                    if error.status != RPCStatusCode.NOT_FOUND:
                        raise
                    continue  # it has ended, or continued as new, since it was listed
                moved.append(run.id)
        return moved, stays

    def _chosen_name(self) -> str:
        if self.name is None:
            raise InvalidInput(UNNAMED, cure=NAME_IT)
        return self.name

    async def _described(self) -> Described:
        name = self._chosen_name()
        client = await self.server.client()
        try:
            with self.server.translate_errors():
                found = await deployment_calls.describe(client, name)
        except Unversioned as error:
            raise no_versioning_error(error) from error
        if found is None:
            raise NotFound(
                f"No worker has registered with the deployment {name}.",
                cure=f"Start one with `perdure worker` and PERDURE_DEPLOYMENT={name}.",
            )
        return found

    def _found(self, described: Described, build: str) -> Build:
        return _only(Deployment(name="", own=self.own, builds=described.builds), build)

    async def _change(self, change: Change, build: str) -> None:
        client, name = await self.server.client(), self._chosen_name()
        # A worker registers its task queues one by one, and the server refuses a build that lacks
        # a queue of the current one. So wait a little: the workers may have just started.
        patient_until = time.monotonic() + REGISTERED_WITHIN_S
        with self.server.translate_errors():
            while True:
                try:
                    return await change(client, name)
                except RPCError as error:
                    if error.status not in _REFUSED:
                        raise
                    # A conflict is not tried again: somebody else has just chosen, and people have
                    # to look.
                    incomplete = error.status == RPCStatusCode.FAILED_PRECONDITION
                    if not incomplete or time.monotonic() > patient_until:
                        raise NotAllowed(
                            f"The server refuses {build}: {error.message}",
                            cure="Start workers of that build, look at `perdure deploy status`, "
                            "and try again.",
                        ) from error
                await asyncio.sleep(REGISTERED_LOOK_S)

    async def _deleted(self, known: Sequence[str]) -> tuple[Build, ...]:
        """Builds that the server no longer keeps, though open runs are pinned to them.

        It deletes a version that has no workers when somebody asks for it, whatever is pinned
        there. Its lists still name it, one after the other.
        """
        name, found = self._chosen_name(), list[str]()
        while True:
            query = deployment_calls.pinned_elsewhere(name, (*known, *found))
            page, _ = await self.server.page(query, limit=1, cursor=None)
            version = page[0].text(deployment_calls.VERSION) if page else None
            if version is None or (build := deployment_calls.build_of(name, version)) in found:
                return tuple(Build(id=one, status="deleted") for one in found)
            found.append(build)

    async def _counted(self, listed: Sequence[Build]) -> tuple[Build, ...]:
        """The builds with their workers and runs."""
        name, client = self._chosen_name(), await self.server.client()
        queue = loops_queue(await self.records.installation())
        with self.server.translate_errors():
            workers = await workers_by_build(client, queue, now=self.now())
            runs = [
                await count_of(client, deployment_calls.pinned_to(name, build.id))
                for build in listed
            ]
        return tuple(
            build.model_copy(update={"workers": workers[build.id], "runs": count})
            for build, count in zip(listed, runs, strict=True)
        )


def _only(deployment: Deployment, build: str) -> Build:
    found = deployment.build(build)
    if found is None:
        known = ", ".join(one.id for one in deployment.builds) or "none"
        raise NotFound(
            f"No one build {build} has registered; there are: {known}.",
            cure="Start a worker of that version first, or give more of its id.",
        )
    return found


def no_versioning_error(error: Unversioned) -> ServiceUnavailable:
    """The error for a server without worker versioning, or without it for this account."""
    if error.denied:
        return ServiceUnavailable(
            f"The server does not show this account its versions of workers: {error}",
            cure="Give the account the right to describe and set worker deployments, or unset "
            "PERDURE_DEPLOYMENT; until then any worker takes any run.",
        )
    return ServiceUnavailable(
        f"The server keeps no versions of workers: {error}",
        cure="Upgrade it or let its administrator switch worker versioning on, or unset "
        "PERDURE_DEPLOYMENT; until then any worker takes any run.",
    )
