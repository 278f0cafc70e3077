"""What a worker makes of its deployment: registers its build, and ends when that is drained."""

import asyncio
import contextlib

import structlog
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.service import RPCError
from temporalio.worker import WorkerDeploymentConfig

from perdure.adapters.temporal.build_id import build_id
from perdure.domain.installation.deployment import BuildStatus
from perdure.gateway import deployment_calls
from perdure.gateway.deployment_calls import Described, Unversioned
from perdure.gateway.deployments import without_versions

REGISTERED_POLL_S = 0.25
LOOKS = 120  # half a minute
LOOK_S = 10.0
_log = structlog.get_logger(__name__)


class OwnBuild:
    """The version that the workers of this process register, with a deployment of that name."""

    def __init__(self, client: Client, deployment: str) -> None:
        self._client = client
        self.deployment = deployment
        self.id = build_id()

    def config(self, *, pinned: bool = True) -> WorkerDeploymentConfig:
        """What a worker registers, and whether its workflows stay with this build."""
        behavior = VersioningBehavior.PINNED if pinned else VersioningBehavior.AUTO_UPGRADE
        return WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(deployment_name=self.deployment, build_id=self.id),
            use_worker_versioning=True,
            default_versioning_behavior=behavior,
        )

    async def begin(self) -> None:
        """Make the first build of a deployment the current one: before that, nothing would run.

        Any later one waits until somebody promotes it.
        """
        found = await self._registered()
        if found is None:
            _log.warning("build_not_registered", deployment=self.deployment, build=self.id)
            return
        if found.untouched:
            # Refused where another worker was faster: then one is current, which is all we want.
            with contextlib.suppress(RPCError):
                await deployment_calls.set_current(
                    self._client,
                    self.deployment,
                    self.id,
                    token=found.token,
                    by=self._client.identity,
                )
            found = await self._registered() or found
        status = _status(found, self.id)
        _log.info("build_serves", deployment=self.deployment, build=self.id, status=status)

    async def drained(self) -> None:
        """Return when the server says that no run needs this build any more.

        A build that is drained already when its worker starts was started for a rollback, and waits
        to be promoted.
        """
        needed = False
        while True:
            with contextlib.suppress(RPCError, Unversioned):
                found = await deployment_calls.describe(self._client, self.deployment)
                status = None if found is None else _status(found, self.id)
                if needed and status == "drained":
                    _log.info("build_drained", deployment=self.deployment, build=self.id)
                    return
                needed = needed or status in {"current", "ramping", "draining"}
            await asyncio.sleep(LOOK_S)

    async def _registered(self) -> Described | None:
        """The deployment, once the server has seen this build poll."""
        for _ in range(LOOKS):
            with contextlib.suppress(RPCError):
                found = await deployment_calls.describe(self._client, self.deployment)
                if found is not None and _status(found, self.id) is not None:
                    return found
            await asyncio.sleep(REGISTERED_POLL_S)
        return None


async def own_build(client: Client, deployment: str | None) -> OwnBuild | None:
    """The build to register; None without a deployment, or where the server keeps no versions.

    There the workers serve as they always did: any takes any run.
    """
    if deployment is None:
        return None
    try:
        await deployment_calls.describe(client, deployment)
    except Unversioned as error:
        told = without_versions(error)
        _log.warning("versions_not_kept", deployment=deployment, why=told.message, cure=told.cure)
        return None
    return OwnBuild(client, deployment)


def _status(found: Described, build: str) -> BuildStatus | None:
    return next((one.status for one in found.builds if one.id == build), None)
