"""Headers of whoever started a loop, passed on to what the loop reaches outside of Perdure.

A loop gets the headers that interceptors of its client or of the awaiting workflow have set, such
as a tenant or a trace. Its next executions and its child runs keep them. Activities that are tools
or checks, and signals to other workflows, carry them. Nothing here reads a header.
"""

from collections.abc import Mapping
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.worker import (
    ContinueAsNewInput,
    Interceptor,
    SignalChildWorkflowInput,
    SignalExternalWorkflowInput,
    StartActivityInput,
    StartChildWorkflowInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from perdure.domain.foundation.names import is_own_queue
from perdure.workflows.engine.handlers import ControlHandlers


class PassedOnHeaders(Interceptor):
    """Passes headers on in loops, and leaves other workflows of the same worker alone."""

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        """What the SDK makes for each workflow."""
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        self.next.init(_Outbound(outbound))


class _Outbound(WorkflowOutboundInterceptor):
    def continue_as_new(self, input: ContinueAsNewInput) -> Any:
        input.headers = _with_given(input.headers)
        return self.next.continue_as_new(input)

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        # Steps of ours need none, and each would stand in the history.
        if input.task_queue is not None and not is_own_queue(input.task_queue):
            input.headers = _with_given(input.headers)
        return self.next.start_activity(input)

    async def start_child_workflow(
        self, input: StartChildWorkflowInput
    ) -> workflow.ChildWorkflowHandle[Any, Any]:
        input.headers = _with_given(input.headers)
        return await self.next.start_child_workflow(input)

    async def signal_child_workflow(self, input: SignalChildWorkflowInput) -> None:
        input.headers = _with_given(input.headers)
        await self.next.signal_child_workflow(input)

    async def signal_external_workflow(self, input: SignalExternalWorkflowInput) -> None:
        input.headers = _with_given(input.headers)
        await self.next.signal_external_workflow(input)


def _with_given(headers: Mapping[str, Payload]) -> Mapping[str, Payload]:
    """The headers with those that the loop was started with; one that is set already stays."""
    if not isinstance(workflow.instance(), ControlHandlers):
        return headers
    return {**workflow.info().headers, **headers}
