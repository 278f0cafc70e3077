"""Whether workers fetch the tasks of a run.

With `server`, `faults` and `troubles`, all that reads what the Temporal client returns.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.api.enums.v1 import PendingActivityState, PendingWorkflowTaskState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse

PENDING = "pending"
DISPATCHED = "dispatched"
PATIENCE_S = 5.0  # as long as the readiness probe waits for an answer
STARTED_ONLY = 2  # events of a run that no worker has looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfetched:
    """A task that no worker has fetched: its queue, its kind, and since when it waits."""

    queue: str
    what: str
    seconds: float


def unfetched(described: DescribeWorkflowExecutionResponse, *, now: datetime) -> Unfetched | None:
    """The oldest work of a run that no worker has taken, whatever its age."""
    lying = [_step(step, now) for step in described.pending_activities if _waits(step)]
    task = described.pending_workflow_task
    if (
        described.HasField("pending_workflow_task")
        and task.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED
        and task.attempt <= 1
    ):
        since = task.original_scheduled_time.ToDatetime(tzinfo=UTC)
        queue = described.execution_config.task_queue.name
        lying.append(Unfetched(queue=queue, what="the run itself", seconds=_age(since, now)))
    return max(lying, key=lambda work: work.seconds, default=None)


def dispatch_of(
    lying: Unfetched | None,
    *,
    history_length: int,
    folders: Mapping[str, str],
    worker_command: Callable[[str | None], str],
) -> str:
    """`pending`, `dispatched`, or what is wrong with how to set it right.

    Args:
        lying: the oldest work that nobody has taken.
        history_length: events of the newest execution.
        folders: the workspace folder of each tools queue that has one.
        worker_command: says how to start the worker of a folder.
    """
    if lying is None or lying.seconds < PATIENCE_S:
        return PENDING if history_length <= STARTED_ONLY else DISPATCHED
    folder = folders.get(lying.queue)
    where = f" for the folder {folder}" if folder else ""
    return (
        f"no worker has taken {lying.what} from the queue {lying.queue}{where} for "
        f"{lying.seconds:.0f} s: none is there, or all are busy. "
        f"Start one with {worker_command(folder)}."
    )


def _waits(step: PendingActivityInfo) -> bool:
    # A step that is tried again is trouble of another kind: somebody had taken it.
    scheduled = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    return step.state == scheduled and step.attempt <= 1


def _step(step: PendingActivityInfo, now: datetime) -> Unfetched:
    since = step.scheduled_time.ToDatetime(tzinfo=UTC)
    return Unfetched(
        queue=step.activity_options.task_queue.name,
        what=f"the step {step.activity_type.name}",
        seconds=_age(since, now),
    )


def _age(since: datetime, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds())
