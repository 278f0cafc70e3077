"""What the steps of tools are counted as."""

import pytest
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from perdure.adapters.telemetry.step_plugin import Meters, _Observing
from perdure.domain.run.activity_messages import ToolCallReport, ToolCallRequest
from perdure.domain.run.metrics import TOOL_CALLS


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


def _asked(name: str, *, made: bool) -> ExecuteActivityInput:
    request = ToolCallRequest(
        frame="f", head="h", call_id="c", name=name, iteration=1, args_hash="a", made=made
    )
    return ExecuteActivityInput(fn=_asked, args=[request], executor=None, headers={})


def _counted(reader: InMemoryMetricReader) -> set[tuple[str, str]]:
    data = reader.get_metrics_data()
    assert data is not None
    return {
        (str(point.attributes["tool"]), str(point.attributes["outcome"]))
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == TOOL_CALLS.name
        for point in metric.data.data_points
        if point.attributes is not None
    }
