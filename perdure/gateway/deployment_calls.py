"""Worker deployments at the Temporal server: describe one, choose its builds, move a run.

They send requests to the workflow service directly.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.deployment.v1 import WorkerDeploymentInfo, WorkerDeploymentVersion
from temporalio.api.enums.v1 import TaskQueueType, WorkerDeploymentVersionStatus
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflow.v1 import VersioningOverride, WorkflowExecutionOptions
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
    SetWorkerDeploymentRampingVersionRequest,
    UpdateWorkflowExecutionOptionsRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.foundation.names import OPEN_EXECUTION
from perdure.domain.installation.deployment import Build, BuildStatus

VERSION = "TemporalWorkerDeploymentVersion"
DEPLOYMENT = "TemporalWorkerDeployment"
_STATUSES: dict[int, BuildStatus] = {
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_CURRENT: "current",
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_RAMPING: "ramping",
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINING: "draining",
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINED: "drained",
}
# An older server does not know the call; a server with versioning switched off refuses it.
WITHOUT = frozenset({RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.PERMISSION_DENIED})


class Unversioned(Exception):
    """The server or namespace does not support worker versioning; the text is the server's.

    Args:
        said: the server's words.
        denied: it refused the call to this account.
    """

    def __init__(self, said: str, *, denied: bool = False) -> None:
        super().__init__(said)
        self.denied = denied


class Described:
    """A deployment as the server describes it.

    A change with `token` fails if another change came first. `untouched` means that nobody has
    chosen a build yet.
    """

    def __init__(self, info: WorkerDeploymentInfo, token: bytes) -> None:
        self.token = token
        self.untouched = not info.routing_config.HasField("current_version_changed_time")
        percent = info.routing_config.ramping_version_percentage
        told = sorted(
            info.version_summaries, key=lambda one: one.create_time.ToNanoseconds(), reverse=True
        )
        self.builds = tuple(
            Build(
                id=one.deployment_version.build_id,
                status=(status := _STATUSES.get(one.status, "inactive")),
                since=_when(one.routing_update_time) or _when(one.create_time),
                percent=percent if status == "ramping" else 0.0,
            )
            for one in told
        )


async def describe(client: Client, name: str) -> Described | None:
    """The deployment of a name; None while no worker has registered with it.

    Raises:
        Unversioned: the server does not support worker versioning.
        RPCError: the request failed for another reason.
    """
    asked = DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=name)
    try:
        reply = await client.workflow_service.describe_worker_deployment(asked, retry=True)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        if error.status in WITHOUT:
            refused = error.status == RPCStatusCode.PERMISSION_DENIED
            denied = refused and "disabled" not in error.message  # what is off is off for all
            raise Unversioned(error.message, denied=denied) from error
        raise
    return Described(reply.worker_deployment_info, reply.conflict_token)


async def serving(client: Client, queue: str) -> str | None:
    """The deployment to which the server gives new workflows of a queue; None without versions.

    Workers without a version get none of them then, nor do those of other deployments.
    """
    asked = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    found = await client.workflow_service.describe_task_queue(asked, retry=True)
    return found.versioning_info.current_deployment_version.deployment_name or None


async def set_current(client: Client, name: str, build: str, *, token: bytes, by: str) -> None:
    """Let a build begin all new runs; raises `RPCError` if the server refuses."""
    await client.workflow_service.set_worker_deployment_current_version(
        SetWorkerDeploymentCurrentVersionRequest(
            namespace=client.namespace,
            deployment_name=name,
            build_id=build,
            conflict_token=token,
            identity=by,
        ),
        # The server may have no room for the request right after a worker registered its queues.
        retry=True,
    )


async def set_ramping(
    client: Client, name: str, build: str, percent: float, *, token: bytes, by: str
) -> None:
    """Let a build begin a percentage of the new runs; an empty build ends the ramp."""
    await client.workflow_service.set_worker_deployment_ramping_version(
        SetWorkerDeploymentRampingVersionRequest(
            namespace=client.namespace,
            deployment_name=name,
            build_id=build,
            percentage=percent,
            conflict_token=token,
            identity=by,
        ),
        retry=True,  # as above
    )


async def move(client: Client, name: str, build: str, *, run: str, execution: str) -> None:
    """Move a run to another build with its next task; from then on it is pinned there."""
    target = WorkerDeploymentVersion(deployment_name=name, build_id=build)
    once = VersioningOverride.OneTimeOverride(target_deployment_version=target)
    await client.workflow_service.update_workflow_execution_options(
        UpdateWorkflowExecutionOptionsRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run, run_id=execution),
            workflow_execution_options=WorkflowExecutionOptions(
                versioning_override=VersioningOverride(one_time=once)
            ),
            update_mask=FieldMask(paths=["versioning_override"]),
        ),
        retry=True,
    )


def pinned_to(name: str, build: str) -> str:
    """The visibility query of open runs that are pinned to a build."""
    return (
        f"{VERSION} = '{name}:{build}' AND {OPEN_EXECUTION} "
        "AND TemporalWorkflowVersioningBehavior = 'Pinned'"
    )


def pinned_elsewhere(name: str, builds: Sequence[str]) -> str:
    """The visibility query of open runs that are pinned to builds of a deployment but these."""
    others = "".join(f" AND {VERSION} != '{name}:{build}'" for build in builds)
    return (
        f"{VERSION} STARTS_WITH '{name}:'{others} AND {OPEN_EXECUTION} "
        "AND TemporalWorkflowVersioningBehavior = 'Pinned'"
    )


def pinned_apart(queue: str, names: Iterable[str]) -> str:
    """The visibility query of open runs of a queue that are pinned in deployments but these."""
    others = "".join(f" AND {DEPLOYMENT} != '{name}'" for name in names)
    return (
        f"{OPEN_EXECUTION} AND TaskQueue = '{queue}'{others} "
        "AND TemporalWorkflowVersioningBehavior = 'Pinned'"
    )


def build_of(name: str, version: str) -> str:
    """The build of a version as the server's lists name it."""
    return version.removeprefix(f"{name}:")


def _when(stamp: Timestamp) -> datetime | None:
    # A field that is not set would read as the year 1970.
    return stamp.ToDatetime(tzinfo=UTC) if stamp.seconds else None
