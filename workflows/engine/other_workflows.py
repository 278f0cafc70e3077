"""Signals and cancellations to other workflows, which may have ended a moment ago.

A workflow that has ended needs neither, so that is no error. How it ended is in its result.
"""

from contextlib import suppress

from temporalio import workflow
from temporalio.exceptions import FailureError
from temporalio.workflow import ChildWorkflowHandle, ExternalWorkflowHandle

from perdure.domain.run.result import RunResult

Handle = ChildWorkflowHandle[object, RunResult]


async def send(to: str | Handle, signal: str, message: object) -> None:
    """Signal a child by its handle, or any other workflow by its id."""
    receiver: Handle | ExternalWorkflowHandle[object] = (
        workflow.get_external_workflow_handle(to) if isinstance(to, str) else to
    )
    with suppress(FailureError):
        await receiver.signal(signal, message)


async def cancel(run: str) -> None:
    """Cancel a workflow by its id, whichever of its executions is open now."""
    with suppress(FailureError):
        await workflow.get_external_workflow_handle(run).cancel()
