"""Facts about the activity that a worker runs, for logs and traces."""

from dataclasses import dataclass

import structlog
from temporalio import activity
from temporalio.plugin import SimplePlugin
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from perdure.domain.run.activity_messages import JudgeRequest, ModelCallRequest, ToolCallRequest


@dataclass(frozen=True, slots=True)
class StepFacts:
    """One attempt of one step; `run` is None for activities outside of runs, such as `ready`."""

    step: str
    attempt: int
    run: str | None = None
    iteration: int | None = None

    def fields(self) -> dict[str, str | int]:
        """The known facts by name."""
        known = {"run": self.run, "iteration": self.iteration, "step": self.step}
        return {
            **{name: value for name, value in known.items() if value is not None},
            "attempt": self.attempt,
        }


def step_facts(request: object) -> StepFacts:
    """The facts of the running activity; `request` is its argument."""
    info = activity.info()
    return StepFacts(
        step=info.activity_type,
        attempt=info.attempt,
        run=info.workflow_id,
        iteration=iteration_of(request),
    )


def iteration_of(request: object) -> int | None:
    match request:
        case ModelCallRequest() | ToolCallRequest():
            return request.iteration
        case JudgeRequest():
            return request.call.iteration
        case _:
            return None


class StepLoggingPlugin(SimplePlugin):
    """Adds the facts of an activity to its log lines.

    Give it to the client or the worker: `Client.connect(plugins=[StepLoggingPlugin()])`.
    """

    def __init__(self) -> None:
        super().__init__("perdure.step_logging", interceptors=[_Binding()])


class _Binding(Interceptor):
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _BoundActivity(next)


class _BoundActivity(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> object:
        facts = step_facts(input.args[0] if input.args else None)
        with structlog.contextvars.bound_contextvars(**facts.fields()):
            return await super().execute_activity(input)
