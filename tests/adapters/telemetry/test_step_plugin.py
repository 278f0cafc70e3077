"""What the steps of tools and models are counted as."""

import asyncio
from dataclasses import replace

import pytest
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from perdure.adapters.telemetry.step_plugin import Meters, _Observing
from perdure.domain.budget.allowances import Allowance
from perdure.domain.run.activity_messages import (
    ModelCallRequest,
    ToolCallReport,
    ToolCallRequest,
)
from perdure.domain.run.metrics import MODEL_CALL_SECONDS, TOOL_CALLS


class Step(ActivityInboundInterceptor):
    """The step itself, which breaks at the tool `notes.broken`."""

    def __init__(self) -> None:
        """There is nothing behind it."""

    async def execute_activity(self, input: ExecuteActivityInput) -> object:
        if input.args[0].name == "notes.broken":
            raise OSError("broken")
        return ToolCallReport()


@pytest.mark.parametrize(
    ("made", "labels"),
    [
        (True, {("made", "ok"), ("made", "failed")}),
        (False, {("notes.count", "ok"), ("notes.broken", "failed")}),
    ],
    ids=["generated tools", "others"],
)
async def test_generated_tools_are_counted_together(
    made: bool, labels: set[tuple[str, str]]
) -> None:
    reader = InMemoryMetricReader()
    meter: Meter = MeterProvider(metric_readers=[reader]).get_meter("test")
    observed = _Observing(Meters(meter)).intercept_activity(Step())
    await ActivityEnvironment().run(observed.execute_activity, _asked("notes.count", made=made))
    with pytest.raises(OSError, match="broken"):
        await ActivityEnvironment().run(
            observed.execute_activity, _asked("notes.broken", made=made)
        )
    assert _counted(reader) == labels


class Ending(ActivityInboundInterceptor):
    """A step that ends with an error."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def execute_activity(self, input: ExecuteActivityInput) -> object:
        raise self._error


ENDS = {
    "cancelled": (asyncio.CancelledError(), "interrupted", "interrupted"),
    "its worker stops": (
        ApplicationError("", type="worker_shutdown"), "interrupted", "interrupted",
    ),
    "given up by the server": (ApplicationError("", type="given_up"), "interrupted", "interrupted"),
    "too late": (ApplicationError("", type="timeout"), "failed", "timeout"),
    "broken": (OSError("broken"), "failed", "failed"),
}  # fmt: skip


@pytest.mark.parametrize(("error", "outcome", "status"), ENDS.values(), ids=ENDS)
async def test_what_ends_from_outside_is_no_failure(
    error: BaseException, outcome: str, status: str
) -> None:
    assert await _ended(error, _asked("notes.count", made=False)) == {("notes.count", outcome)}
    model = ModelCallRequest(frame="f", iteration=1, model="m", allowance=Allowance(max_tokens=9))
    assert await _ended(error, replace(_asked("", made=False), args=[model])) == {("m", status)}


async def test_a_look_at_a_call_is_no_call() -> None:
    asked = _asked("notes.count", made=False)
    assert await _ended(OSError("broken"), asked, step="check_call") == set()


async def _ended(
    error: BaseException, asked: ExecuteActivityInput, *, step: str = "call_tool"
) -> set[tuple[str, str]]:
    reader = InMemoryMetricReader()
    meter: Meter = MeterProvider(metric_readers=[reader]).get_meter("test")
    observed = _Observing(Meters(meter)).intercept_activity(Ending(error))
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, activity_type=step)
    with pytest.raises(type(error)):
        await environment.run(observed.execute_activity, asked)
    return _counted(reader)


def _asked(name: str, *, made: bool) -> ExecuteActivityInput:
    request = ToolCallRequest(
        frame="f", head="h", call_id="c", name=name, iteration=1, args_hash="a", made=made
    )
    return ExecuteActivityInput(fn=_asked, args=[request], executor=None, headers={})


def _counted(reader: InMemoryMetricReader) -> set[tuple[str, str]]:
    data = reader.get_metrics_data()
    if data is None:
        return set()
    labels = {TOOL_CALLS.name: ("tool", "outcome"), MODEL_CALL_SECONDS.name: ("model", "status")}
    return {
        (str(point.attributes[subject]), str(point.attributes[end]))
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for subject, end in (labels[metric.name],)
        for point in metric.data.data_points
        if point.attributes is not None
    }
