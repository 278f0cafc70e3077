"""How replayed runs end: what their queries tell, computed anew by this code."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from temporalio import workflow
from temporalio.exceptions import FailureError
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from perdure.domain.run.events import Event
from perdure.domain.run.messages import EventsQuery
from perdure.domain.run.result import SpendReport
from perdure.domain.run.status import RunStatus
from perdure.domain.turns.records import IterationRecord
from perdure.workflows.engine.handlers import ControlHandlers

TOLD: Mapping[str, TypeAdapter[Any]] = {
    "status": TypeAdapter(RunStatus),
    "costs": TypeAdapter(SpendReport),
    "history": TypeAdapter(list[IterationRecord]),
    "events": TypeAdapter(list[Event]),
}


def as_json(query: str, answer: object) -> Any:
    """The JSON of an answer; fields that are newer than it have their defaults."""
    adapter = TOLD[query]
    return adapter.dump_python(adapter.validate_python(answer), mode="json")


class Ends(Interceptor):
    """Interceptor of a replayer; `newest` holds the answers at the end of the newest replay."""

    def __init__(self) -> None:
        self.newest: dict[str, Any] | None = None

    def take(self) -> None:
        """Ask the workflow that just ended, as a query would."""
        loop = workflow.instance()
        if not isinstance(loop, ControlHandlers):
            self.newest = None  # an experiment: nothing was kept of its end
            return
        answers: Mapping[str, object] = {
            "status": loop.see_status(),
            "costs": loop.see_costs(),
            "history": loop.see_history(),
            "events": loop.see_events(EventsQuery()),
        }
        self.newest = {query: as_json(query, answer) for query, answer in answers.items()}

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
