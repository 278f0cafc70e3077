"""What somebody paused at the Temporal server: a whole execution, or single steps.

Perdure's own `pause` is a message to the run. `temporal workflow pause` and `temporal activity
pause` are not: the server hands nothing to workers any more, and the run cannot know.
"""

from collections.abc import Sequence

from temporalio.api.enums.v1 import WorkflowExecutionStatus as ServerStatus
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import WorkflowExecution, WorkflowExecutionStatus

PAUSED_THERE = "paused at the Temporal server"
_PAUSED = int(ServerStatus.WORKFLOW_EXECUTION_STATUS_PAUSED)
REASON_CHARACTERS = 200
PAUSES = "TemporalPauseInfo"
OF_A_TYPE = "property:activityType="


def _open_if_paused(_: object, value: object) -> WorkflowExecutionStatus | None:
    return WorkflowExecutionStatus.RUNNING if value == _PAUSED else None


# The SDK has no such status: one paused execution made every list that it is in, and each look at
# it, fail with a ValueError. A paused execution is open, as a running one is.
type.__setattr__(WorkflowExecutionStatus, "_missing_", classmethod(_open_if_paused))


def paused_execution(described: DescribeWorkflowExecutionResponse) -> str | None:
    """That a whole execution is paused there, by whom and why; None if it is not."""
    if described.workflow_execution_info.status != _PAUSED:
        return None
    info = described.workflow_extended_info.pause_info
    return (
        f"{PAUSED_THERE}{_by(info.identity, info.reason)}: no step begins, and nothing that is "
        "said to the run is heard."
    )


def is_paused(listed: WorkflowExecution) -> bool:
    """Whether an execution of a list is paused there; why, only a look at it says."""
    return listed.raw_info.status == _PAUSED


def paused_types(listed: Sequence[str]) -> tuple[str, ...]:
    """The types of steps that a search attribute of the server says are paused."""
    return tuple(word.removeprefix(OF_A_TYPE) for word in listed if word.startswith(OF_A_TYPE))


def unpause_run(run: str) -> str:
    """The command that lets a run go on that is paused there."""
    return f"`temporal workflow unpause --workflow-id {run}` lets it go on."


def paused_steps(steps: Sequence[PendingActivityInfo]) -> str | None:
    """Which steps are paused there, by whom and why; None if none is."""
    paused = [step for step in steps if step.paused]
    if not paused:
        return None
    first, others = paused[0], len(paused) - 1
    cause = first.pause_info.manual
    if first.pause_info.HasField("rule"):
        cause = first.pause_info.rule
    more = f" (and {others} more)" if others else ""
    return (
        f"{PAUSED_THERE}{_by(cause.identity, cause.reason)}: the step {first.activity_type.name} "
        f"({first.activity_id}){more}."
    )


def _by(identity: str, reason: str) -> str:
    who = f" by {identity}" if identity else ""
    why = " ".join(reason.split())[:REASON_CHARACTERS]
    return f"{who} ({why})" if why else who
