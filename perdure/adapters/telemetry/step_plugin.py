"""Adds facts from a step's request and report to its span, and counts them in metrics."""

import time
from asyncio import CancelledError

from opentelemetry import trace
from opentelemetry.metrics import Counter, Histogram, Meter
from opentelemetry.trace import Span
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.plugin import SimplePlugin
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from perdure.adapters.telemetry import conventions as names
from perdure.adapters.telemetry.step_spans import (
    account_attributes,
    evaluation_events,
    report_attributes,
    request_attributes,
)
from perdure.adapters.temporal.activity_context import StepFacts, step_facts
from perdure.domain.llm.usage import AttemptTotals
from perdure.domain.run import metrics
from perdure.domain.run.activity_messages import (
    JudgeReport,
    JudgeRequest,
    ModelCallReport,
    ModelCallRequest,
    ModelFailure,
    ToolCallReport,
    ToolCallRequest,
)
from perdure.domain.run.metrics import Metric

# From a call of a local store to a person who answers the next day.
SECONDS_BUCKETS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86400,
)  # fmt: skip
INPUT, OUTPUT, UNCONFIRMED = "input", "output", "unconfirmed"
CACHE_READ, CACHE_CREATION = "cache_read", "cache_creation"


class Meters:
    """The instruments for activities; workflow code has its own."""

    def __init__(self, meter: Meter) -> None:
        self._tokens = _counter(meter, metrics.TOKENS)
        self._cost = _counter(meter, metrics.COST)
        self._seconds = _histogram(meter, metrics.MODEL_CALL_SECONDS)
        self._tools = _counter(meter, metrics.TOOL_CALLS)

    def model_call(self, *, model: str, step: str, status: str, seconds: float) -> None:
        """Count one attempt of a model call."""
        self._seconds.record(seconds, {"model": model, "step": step, "status": status})

    def account(self, account: AttemptTotals, *, model: str) -> None:
        """Count the usage of all attempts of a call; to be called once for each call."""
        usage = account.usage
        written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
        lost = account.unconfirmed
        for kind, tokens in (
            (INPUT, usage.input_tokens),
            (OUTPUT, usage.output_tokens),
            (CACHE_READ, usage.cache_read_tokens),
            (CACHE_CREATION, written),
            (UNCONFIRMED, lost.prompt_tokens + lost.output_tokens),
        ):
            if tokens:
                self._tokens.add(tokens, {"model": model, "type": kind})
        if account.total_cost_usd:
            self._cost.add(float(account.total_cost_usd), {"model": model})

    def tool_call(self, *, tool: str, outcome: str) -> None:
        """Count one attempt of a tool call."""
        self._tools.add(1, {"tool": tool, "outcome": outcome})


def _counter(meter: Meter, metric: Metric) -> Counter:
    return meter.create_counter(metric.name, metric.unit, metric.description)


def _histogram(meter: Meter, metric: Metric) -> Histogram:
    return meter.create_histogram(
        metric.name,
        metric.unit,
        metric.description,
        explicit_bucket_boundaries_advisory=SECONDS_BUCKETS,
    )


BROKEN, INTERRUPTED = "failed", "interrupted"
MADE = "made"
CHECK = "check_call"  # of a tool call, and not the call itself
# What ends attempts from outside: their worker stops, or the server waits for them no longer.
FROM_OUTSIDE = frozenset({"worker_shutdown", "given_up"})


class StepTelemetryPlugin(SimplePlugin):
    """Traces and counts the steps of workers.

    Register it on the client, after Temporal's own plugin; workers inherit it.
    """

    def __init__(self, meters: Meters) -> None:
        super().__init__("perdure.step_telemetry", interceptors=[_Observing(meters)])


class _Observing(Interceptor):
    def __init__(self, meters: Meters) -> None:
        self._meters = meters

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _ObservedActivity(next, self._meters)


class _ObservedActivity(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, meters: Meters) -> None:
        super().__init__(next)
        self._meters = meters

    async def execute_activity(self, input: ExecuteActivityInput) -> object:
        request: object = input.args[0] if input.args else None
        facts, span = step_facts(request), trace.get_current_span()
        span.set_attributes({**_step_attributes(facts), **request_attributes(request)})
        begun = time.monotonic()
        try:
            report: object = await super().execute_activity(input)
        # Cancelled attempts count too: they took time, and may have cost something.
        except BaseException as error:
            self._note_failure(span, request, error, seconds=time.monotonic() - begun)
            raise
        seconds = time.monotonic() - begun
        span.set_attributes(report_attributes(request, report))
        for attributes in evaluation_events(request, report):
            span.add_event(names.EVALUATION_EVENT, attributes)
        asked, given = _call(request), _call(report)
        if isinstance(asked, ModelCallRequest) and isinstance(given, ModelCallReport):
            self._count_call(asked, status=given.status, seconds=seconds)
            self._meters.account(given.account, model=asked.model)
        elif isinstance(asked, ToolCallRequest) and isinstance(given, ToolCallReport):
            self._meters.tool_call(tool=_counted_name(asked), outcome=given.outcome)
        return report

    def _note_failure(
        self, span: Span, request: object, error: BaseException, *, seconds: float
    ) -> None:
        kind = error.type if isinstance(error, ApplicationError) else None
        span.set_attribute(names.ERROR_TYPE, kind or type(error).__name__)
        outside = kind in FROM_OUTSIDE or isinstance(error, CancelledError)
        asked = _call(request)
        if isinstance(asked, ToolCallRequest) and activity.info().activity_type != CHECK:
            outcome = INTERRUPTED if outside else BROKEN
            self._meters.tool_call(tool=_counted_name(asked), outcome=outcome)
        if not isinstance(asked, ModelCallRequest):
            return
        status = INTERRUPTED if outside else kind or BROKEN
        self._count_call(asked, status=status, seconds=seconds)
        failure = _model_failure(error)
        if failure is not None:
            span.set_attributes(account_attributes(failure.account))
            # An account covers all attempts so far, so count only that of the last attempt.
            if _is_last(error):
                self._meters.account(failure.account, model=asked.model)

    def _count_call(self, asked: ModelCallRequest, *, status: str, seconds: float) -> None:
        step = activity.info().activity_type
        self._meters.model_call(model=asked.model, step=step, status=status, seconds=seconds)


def _call(message: object) -> object:
    """The model call in the message of a judge, or else the message itself."""
    return message.call if isinstance(message, JudgeRequest | JudgeReport) else message


def _counted_name(asked: ToolCallRequest) -> str:
    """The label of a tool. Models name generated tools, so by name they would have no end."""
    return MADE if asked.made else asked.name


def _step_attributes(facts: StepFacts) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {names.STEP: facts.step, names.ATTEMPT: facts.attempt}
    if facts.run is not None:
        attributes[names.CONVERSATION] = facts.run
    if facts.iteration is not None:
        attributes[names.ITERATION] = facts.iteration
    return attributes


def _model_failure(error: BaseException) -> ModelFailure | None:
    if not isinstance(error, ApplicationError) or not error.details:
        return None
    detail: object = error.details[0]
    return detail if isinstance(detail, ModelFailure) else None


def _is_last(error: BaseException) -> bool:
    """Whether the server will not retry after this error."""
    info = activity.info()
    policy = info.retry_policy
    # To the server, 0 attempts means without end.
    used_up = policy is not None and 0 < policy.maximum_attempts <= info.attempt
    return used_up or (isinstance(error, ApplicationError) and error.non_retryable)
