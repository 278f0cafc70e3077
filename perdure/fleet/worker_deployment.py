"""The deployment of a worker: it registers its build, and ends when the build is drained."""

import asyncio
import contextlib

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.service import RPCError
from temporalio.worker import WorkerDeploymentConfig

from perdure.adapters.temporal.build_id import build_id
from perdure.domain.installation.deployment import BuildStatus
from perdure.event_log import get_logger
from perdure.gateway import deployment_calls
from perdure.gateway.deployment_calls import Described, Unversioned
from perdure.gateway.deployments import no_versioning_error
from perdure.gateway.execution_queries import count_of

REGISTERED_POLL_S = 0.25
LOOKS = 120  # half a minute
LOOK_S = 10.0
_log = get_logger(__name__)


class OwnBuild:
    """The build that the workers of this process register with their deployment."""

    def __init__(self, client: Client, deployment: str) -> None:
        self._client = client
        self.deployment = deployment
        self.id = build_id()

    def config(self, *, pinned: bool = True) -> WorkerDeploymentConfig:
        """The deployment configuration; `pinned` workflows stay with this build."""
        behavior = VersioningBehavior.PINNED if pinned else VersioningBehavior.AUTO_UPGRADE
        return WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(deployment_name=self.deployment, build_id=self.id),
            use_worker_versioning=True,
            default_versioning_behavior=behavior,
        )

    async def begin(self) -> None:
        """Make the first build of a deployment the current one, without which nothing would run.

        A later build waits until somebody promotes it.
        """
        found = await self._registered()
        if found is None:
            _log.warning("build_not_registered", deployment=self.deployment, build=self.id)
            return
        if found.untouched:
            await self._make_current(found.token)
            # Read again for the log: another worker may have been the faster one.
            found = await self._registered() or found
        status = _status(found, self.id)
        _log.info("build_serves", deployment=self.deployment, build=self.id, status=status)

    async def _make_current(self, token: bytes) -> None:
        # Refused if another worker was faster. Then there is a current build, and that is fine.
        try:
            await deployment_calls.set_current(
                self._client, self.deployment, self.id, token=token, by=self._client.identity
            )
        except RPCError as error:
            if error.status in deployment_calls.WITHOUT:
                _log.error(
                    "build_not_current",
                    why=f"No build of {self.deployment} is current, so no run begins, and this "
                    f"account may not choose one: {error.message}",
                    cure="Let somebody who may: `temporal worker deployment set-current-version "
                    f"--deployment-name {self.deployment} --build-id {self.id} --namespace "
                    f"{self._client.namespace}`.",
                )

    async def wait_until_drained(self) -> None:
        """Wait until the server says that no run needs this build any more, and has none of it.

        To the server, a run that is paused there needs nothing; it goes on later, with this build.
        If the build is drained already at the start, its worker was started for a rollback, and
        waits until somebody promotes it.
        """
        needed = False
        while True:
            # A server that is away says nothing of the build: it is asked again.
            with contextlib.suppress(RPCError, Unversioned):
                found = await deployment_calls.describe(self._client, self.deployment)
                status = None if found is None else _status(found, self.id)
                if needed and status == "drained" and not await self._runs():
                    _log.info("build_drained", deployment=self.deployment, build=self.id)
                    return
                # Only now: a build that is drained at the first look is kept for a rollback.
                needed = needed or status in {"current", "ramping", "draining"}
            await asyncio.sleep(LOOK_S)

    async def _runs(self) -> int:
        """How many open runs are pinned to this build."""
        return await count_of(self._client, deployment_calls.pinned_to(self.deployment, self.id))

    async def _registered(self) -> Described | None:
        """The deployment, once the server has seen this build poll."""
        for _ in range(LOOKS):
            with contextlib.suppress(RPCError, Unversioned):
                found = await deployment_calls.describe(self._client, self.deployment)
                if found is not None and _status(found, self.id) is not None:
                    return found
            await asyncio.sleep(REGISTERED_POLL_S)
        return None


async def own_build(client: Client, deployment: str | None) -> OwnBuild | None:
    """The build to register; None without a deployment, or if the server lacks worker versioning.

    Without a build, any worker takes any run.
    """
    if deployment is None:
        return None
    try:
        await deployment_calls.describe(client, deployment)
    except Unversioned as error:
        told = no_versioning_error(error)
        _log.warning("versions_not_kept", deployment=deployment, why=told.message, cure=told.cure)
        return None
    return OwnBuild(client, deployment)


def _status(found: Described, build: str) -> BuildStatus | None:
    return next((one.status for one in found.builds if one.id == build), None)
