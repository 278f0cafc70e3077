"""What a list shows of a run's memo, where a client's own values stand beside the product's."""

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import WorkflowExecution
from temporalio.converter import DataConverter

from perdure.adapters.temporal.data_converter import data_converter
from perdure.gateway.execution_info import SEALED_GOAL, info_of

KEY, OTHER = b"k" * 32, b"o" * 32


async def listed(reader: DataConverter, **memo: tuple[DataConverter, object]) -> dict[str, str]:
    """The memo that is shown to a reader, of values that different clients encoded."""
    told = WorkflowExecutionInfo()
    for name, (writer, value) in memo.items():
        (payload,) = await writer.encode([value])
        told.memo.fields[name].CopyFrom(payload)
    execution = WorkflowExecution._from_raw_info(told, "default", reader)
    return dict((await info_of(execution)).memo)


async def test_a_value_that_cannot_be_read_hides_no_other_one() -> None:
    ours, theirs = data_converter(None, [KEY]), data_converter(None, [OTHER])
    plain = DataConverter.default
    shown = await listed(
        ours, goal=(ours, "Write a text."), team=(theirs, "red"), city=(plain, "Rome")
    )
    assert shown == {"goal": "Write a text.", "city": "Rome"}


async def test_a_goal_that_cannot_be_read_says_so() -> None:
    ours, theirs = data_converter(None, [KEY]), data_converter(None, [OTHER])
    shown = await listed(ours, goal=(theirs, "Write a text."), label=(ours, "blue"))
    assert shown == {"goal": SEALED_GOAL, "label": "blue"}


async def test_a_memo_without_a_goal_gets_none() -> None:
    ours, theirs = data_converter(None, [KEY]), data_converter(None, [OTHER])
    assert await listed(ours, team=(theirs, "blue")) == {}
