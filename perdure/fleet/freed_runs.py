"""Takes a run off a worker that died, so that the run does not wait for it.

The server sends a run's workflow tasks to the worker that has the run in its cache, and to others
only after `PERDURE_STICKY_S`. It cannot tell that this worker was killed. A step that is made again
since its attempt was lost can: whoever held the attempt is gone.
"""

from datetime import timedelta

from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    ResetStickyTaskQueueRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from perdure.event_log import get_logger

ANSWER_WITHIN = timedelta(seconds=2)
# A timeout before the start is none of these: no worker has held such an attempt.
LOST = (TimeoutType.TIMEOUT_TYPE_HEARTBEAT, TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE)

_log = get_logger(__name__)


class FreedRuns(Interceptor):
    """Lets any worker take a run whose step was lost with its worker.

    If the run is in the cache of a worker that lives, it is replayed once for nothing.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Freeing(next, self._client)


class _Freeing(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, client: Client) -> None:
        super().__init__(next)
        self._client = client

    async def execute_activity(self, input: ExecuteActivityInput) -> object:
        info = activity.info()
        # First attempts ask nothing, as nearly all are; standalone activities belong to no run.
        if info.attempt > 1 and info.workflow_id is not None:
            try:
                await self._free_if_lost(info)
            except RPCError as error:  # the run waits for its former worker then
                _log.debug("run_not_freed", why=error.message)
        return await super().execute_activity(input)

    async def _free_if_lost(self, info: activity.Info) -> None:
        service, namespace = self._client.workflow_service, self._client.namespace
        # Two requests come before the first heartbeat: a slow server must not lose the attempt.
        within = min(ANSWER_WITHIN, (info.heartbeat_timeout or timedelta.max) / 4)
        execution = WorkflowExecution(
            workflow_id=info.workflow_id or "", run_id=info.workflow_run_id or ""
        )
        described = await service.describe_workflow_execution(
            DescribeWorkflowExecutionRequest(namespace=namespace, execution=execution),
            timeout=within,
        )
        if any(_was_lost(one, info.activity_id) for one in described.pending_activities):
            await service.reset_sticky_task_queue(
                ResetStickyTaskQueueRequest(namespace=namespace, execution=execution),
                timeout=within,
            )


def _was_lost(pending: PendingActivityInfo, activity_id: str) -> bool:
    lost = pending.last_failure.timeout_failure_info.timeout_type
    return pending.activity_id == activity_id and lost in LOST
