"""Starting and resetting executions at the server, as people do in the Web UI and from a shell."""

import uuid

from temporalio.api.common.v1 import Payloads, WorkflowExecution, WorkflowType
from temporalio.api.enums.v1 import EventType, ResetReapplyExcludeType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    ResetWorkflowExecutionRequest,
    StartWorkflowExecutionRequest,
)
from temporalio.client import Client

MESSAGES = (
    ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL,
    ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE,
)


async def start_like(client: Client, run: str, *, name: str, execution: str | None = None) -> None:
    """Start a workflow with the input of an execution: `Start Workflow Like This One`."""
    history = await client.get_workflow_handle(run, run_id=execution).fetch_history()
    begun = history.events[0].workflow_execution_started_event_attributes
    await client.workflow_service.start_workflow_execution(
        StartWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_id=name,
            request_id=uuid.uuid4().hex,
            workflow_type=WorkflowType(name=begun.workflow_type.name),
            task_queue=TaskQueue(name=begun.task_queue.name),
            input=Payloads(payloads=begun.input.payloads),
        )
    )


async def reset_to(
    client: Client, run: str, execution: str, *, task: int, hears_again: bool = True
) -> None:
    """Reset an execution to one of its workflow tasks: 0 is the first, -1 the last.

    Unless it `hears_again`, the messages of the older life are not sent to the new one.
    """
    history = await client.get_workflow_handle(run, run_id=execution).fetch_history()
    done = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    tasks = [event.event_id for event in history.events if event.event_type == done]
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run, run_id=execution),
            request_id=uuid.uuid4().hex,
            workflow_task_finish_event_id=tasks[task],
            reset_reapply_exclude_types=[] if hears_again else MESSAGES,
        )
    )
