"""How replayed runs end: their status, computed anew by this code, as it would tell it."""

import json
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from workflows.control import Controlled


class Ends(Interceptor):
    """Interceptor of a replayer; `newest` is the status at the end of the newest replay."""

    def __init__(self) -> None:
        self.newest: dict[str, Any] | None = None

    def take(self) -> None:
        """Ask the workflow that just ended, as a query would."""
        loop = workflow.instance()
        assert isinstance(loop, Controlled)
        self.newest = json.loads(loop.see_status().model_dump_json())

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        ends = self

        class Inbound(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
                ends.newest = None
                try:
                    result = await super().execute_workflow(input)
                except (workflow.ContinueAsNewError, FailureError):
                    ends.take()
                    raise
                ends.take()
                return result

        return Inbound
