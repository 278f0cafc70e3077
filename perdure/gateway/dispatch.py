"""Whether workers fetch the tasks of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from temporalio.api.enums.v1 import (
    PendingActivityState,
    PendingWorkflowTaskState,
    VersioningBehavior,
)
from temporalio.api.workflow.v1 import PendingActivityInfo, PendingWorkflowTaskInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse

from perdure.gateway.server_pauses import paused_execution
from perdure.gateway.worker_probe import QueueLimit

PENDING = "pending"
DISPATCHED = "dispatched"
PATIENCE_S = 5.0  # as long as the readiness probe waits for an answer
STARTED_ONLY = 2  # the number of events of a run before a worker takes its first task
# How the cure of a limit and any other one begin. A limit comes first: it has a reason that
# somebody wrote, before its cure.
_CURES = (" `temporal task-queue config set ", " Start one with ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfetched:
    """A task that no worker has fetched: its queue, what it is, and how long it waits.

    `build` is the build that its run is pinned to, and `deployment` the one that has this build.
    """

    queue: str
    what: str
    seconds: float
    build: str = ""
    deployment: str = ""

    @property
    def late(self) -> bool:
        """Whether it waits longer than a worker takes that is there and free."""
        return self.seconds >= PATIENCE_S


def unfetched(described: DescribeWorkflowExecutionResponse, *, now: datetime) -> Unfetched | None:
    """The oldest task of a run that no worker has fetched, however young it is.

    What is paused at the server is not offered to workers, so it lies in no queue.
    """
    if paused_execution(described) is not None:
        return None
    lying = [_step(step, now) for step in described.pending_activities if _waits(step)]
    task = described.pending_workflow_task
    if described.HasField("pending_workflow_task") and is_queued(task):
        queue = described.execution_config.task_queue.name
        seconds = _age(_put_there(task), now)
        lying.append(Unfetched(queue=queue, what="the run itself", seconds=seconds))
    oldest = max(lying, key=lambda work: work.seconds, default=None)
    return None if oldest is None else _pinned(oldest, described)


def dispatch_of(
    lying: Unfetched | None,
    *,
    history_length: int,
    folders: Mapping[str, str],
    worker_command: Callable[[str | None], str],
    limit: QueueLimit | None = None,
) -> str:
    """`pending`, `dispatched`, or what is wrong and what to do.

    Args:
        lying: the oldest task that no worker has fetched.
        history_length: the number of events of the newest execution.
        folders: the workspace folder of each tools queue that has one.
        worker_command: returns the command that starts the worker of a folder.
        limit: the rate that somebody set for its queue at the server.
    """
    if lying is None or not lying.late:
        return PENDING if history_length <= STARTED_ONLY else DISPATCHED
    folder = folders.get(lying.queue)
    where = f" for the folder {folder}" if folder else ""
    told = (
        f"no worker has taken {lying.what} from the queue {lying.queue}{where} for "
        f"{lying.seconds:.0f} s: none is there, or all are busy."
    )
    if limit is not None:
        return f"{told.removesuffix('.')}; and {limit.words}. {limit.cure}"
    if not lying.build:
        return f"{told} Start one with {worker_command(folder)}."
    # This command may know no deployment, or another one.
    named = f"PERDURE_DEPLOYMENT={lying.deployment}"
    return (
        f"{told} The run is pinned to the build {lying.build} of the deployment "
        f"{lying.deployment}. Start one with {named} and that version, or let the run go on in the "
        f"current build: `{named} perdure deploy drain {lying.build} --move`."
    )


def found_and_cure(dispatch: str) -> tuple[str, str] | None:
    """What is wrong and what to do, of a status's `dispatch`; None if nothing is to be done."""
    for start in _CURES:
        found, separator, rest = dispatch.rpartition(start)
        if separator:
            return found, f"{start.lstrip()}{rest}"
    return None


def is_queued(task: PendingWorkflowTaskInfo) -> bool:
    """Whether a workflow task waits in its queue."""
    return task.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED


def is_queued_long(task: PendingWorkflowTaskInfo, now: datetime) -> bool:
    """Whether a workflow task waits longer than it would if a worker were there."""
    return is_queued(task) and _age(_put_there(task), now) >= PATIENCE_S


def _put_there(task: PendingWorkflowTaskInfo) -> datetime:
    """When this attempt was put into the queue."""
    # The original time stays that of the first attempt, which a worker may have taken long ago.
    again = task.attempt > 1 and task.HasField("scheduled_time")
    since = task.scheduled_time if again else task.original_scheduled_time
    return since.ToDatetime(tzinfo=UTC)


def _waits(step: PendingActivityInfo) -> bool:
    """Whether a step lies in its queue, also one that is tried again: its workers may be gone."""
    scheduled = step.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    # Between two attempts a step lies in no queue.
    pauses = step.paused or step.HasField("next_attempt_schedule_time")
    return scheduled and not pauses


def _pinned(lying: Unfetched, described: DescribeWorkflowExecutionResponse) -> Unfetched:
    """The task with the build that its run is pinned to, if it is."""
    info = described.workflow_execution_info.versioning_info
    if info.behavior != VersioningBehavior.VERSIONING_BEHAVIOR_PINNED:
        return lying
    version = info.deployment_version
    return replace(lying, build=version.build_id, deployment=version.deployment_name)


def _step(step: PendingActivityInfo, now: datetime) -> Unfetched:
    # The time of the last attempt counts where a server keeps the time of the first one as that of
    # the schedule.
    times = (step.scheduled_time, step.last_attempt_complete_time)
    since = max(time.ToDatetime(tzinfo=UTC) for time in times)
    return Unfetched(
        queue=step.activity_options.task_queue.name,
        what=f"the step {step.activity_type.name}",
        seconds=_age(since, now),
    )


def _age(since: datetime, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds())
