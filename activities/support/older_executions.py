"""What the server knows of the executions that a reset one came from: the children they started."""

from temporalio import activity
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.foundation.names import WORKFLOW_TYPES

_KINDS = {workflow: kind for kind, workflow in WORKFLOW_TYPES.items()}


async def children_started(run: str, current: str) -> dict[str, str]:
    """The kinds of all children that older lives of a run asked the server for, by id.

    One that no worker has opened yet has no row in the store; the histories have it. Each names the
    one that it was reset from.
    """
    found: dict[str, str] = {}
    waiting, seen = [current], set[str]()
    while waiting:
        execution = waiting.pop()
        if execution in seen:
            continue
        seen.add(execution)
        for event in await _events(run, execution):
            if (base := _reset_from(event)) is not None:
                waiting.append(base)
            elif execution != current:
                found |= _child(event)
    return found


async def _events(run: str, execution: str) -> list[HistoryEvent]:
    """The history of one execution; empty where the server dropped it."""
    handle = activity.client().get_workflow_handle(run, run_id=execution)
    try:
        return [event async for event in handle.fetch_history_events()]
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return []
        raise


def _reset_from(event: HistoryEvent) -> str | None:
    failed = event.workflow_task_failed_event_attributes
    if failed.cause != WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW:
        return None
    return failed.base_run_id or None


def _child(event: HistoryEvent) -> dict[str, str]:
    if event.event_type != EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
        return {}
    asked = event.start_child_workflow_execution_initiated_event_attributes
    kind = asked.workflow_type.name
    return {asked.workflow_id: _KINDS.get(kind, kind)}
