"""Binds run, iteration, step and attempt to every log line that an activity writes."""

import structlog
from temporalio.plugin import SimplePlugin
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from perdure.adapters.step_facts import step_facts


class StepLoggingPlugin(SimplePlugin):
    """Give it to the client or the worker: `Client.connect(plugins=[StepLoggingPlugin()])`."""

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
