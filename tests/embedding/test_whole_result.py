"""A workflow reads the whole output of a loop that returned only the beginning of it."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from installation import Installation
from memory_blobs import MemoryBlobs
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Replayer, Worker

from perdure.activities.read_run_output import ReadRunOutput
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.run.output_request import ReadOutputRequest
from perdure.temporal import PerdurePlugin

with workflow.unsafe.imports_passed_through():
    from perdure.workflow import Child, agent, whole_result

LONG = "Für dich: “ja”. " * 4_000


@workflow.defn
class Reading:
    """Awaits an agent, and tells what it returned and what was read."""

    @workflow.run
    async def run(self, task: dict[str, Any], queue: str | None) -> list[Any]:
        child = Child(task_queue=queue)
        result = await agent("Write at length.", child=child, recall=False, **task)
        whole = await whole_result(result, task_queue=queue)
        again = await whole_result(whole)
        return [result.excerpt, result.value, whole.excerpt, whole.value, again.output]


async def _read(
    bare: Installation, text: str, converter: DataConverter, *, aside: bool = False, **task: Any
) -> tuple[list[Any], int]:
    """What the workflow tells, and how many outputs were read."""
    model = await bare.script({"replies": [{"text": text}]})
    queue, loops = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("orders", "loops"))
    plugin = PerdurePlugin(bare.settings, queues=[loops] if aside else [])
    client = await Client.connect(bare.address, plugins=[plugin], data_converter=converter)
    given = {"models": {"executor": model}, **task}
    async with Worker(client, task_queue=queue, workflows=[Reading]):
        handle = await client.start_workflow(
            Reading.run, args=[given, loops if aside else None], id=queue, task_queue=queue
        )
        told = await handle.result()
    history = await handle.fetch_history()
    await Replayer(workflows=[Reading], plugins=[plugin], data_converter=converter).replay_workflow(
        history
    )
    steps = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    return told, steps.count("read_run_output")


@pytest.mark.parametrize("aside", [False, True], ids=["on its queue", "on another queue"])
@pytest.mark.parametrize(
    "converter", [DataConverter.default, pydantic_data_converter], ids=["default", "pydantic"]
)
async def test_a_long_output_is_read_whole(
    bare: Installation, converter: DataConverter, aside: bool
) -> None:
    told, read = await _read(bare, LONG, converter, aside=aside)
    assert told == [True, None, False, None, LONG]
    assert read == 1


async def test_a_long_value_is_there_too(bare: Installation) -> None:
    rows = [f"row {number}" for number in range(4_000)]
    schema = {"type": "array", "items": {"type": "string"}}
    told, _ = await _read(bare, json.dumps(rows), DataConverter.default, output_schema=schema)
    assert told[:2] == [True, None]
    assert told[3] == rows


async def test_a_short_output_takes_no_step(bare: Installation) -> None:
    told, read = await _read(bare, "Short.", DataConverter.default)
    assert (told[0], told[-1], read) == (False, "Short.", 0)


async def _asked(blobs: Any, address: str, **given: Any) -> str:
    step = ReadOutputRequest(run="mail-1", address=address)
    return await ActivityEnvironment().run(ReadRunOutput(blobs, **given).read_run_output, step)


async def test_an_output_that_is_gone_is_told_once_for_all() -> None:
    with pytest.raises(ApplicationError, match="output of mail-1 is not in the store") as told:
        await _asked(MemoryBlobs(), "sha256:none")
    assert (told.value.type, told.value.non_retryable) == ("not_found", True)


async def test_an_output_that_temporal_does_not_carry_is_refused() -> None:
    blobs = MemoryBlobs()
    address = await blobs.put("äää".encode())
    assert await _asked(blobs, address, most=20) == "äää"
    with pytest.raises(ApplicationError, match=r"takes 20 bytes as JSON.*client\.attach") as told:
        await _asked(blobs, address, most=19)
    assert told.value.non_retryable


@activity.defn(name="read_run_output")
async def theirs() -> None:
    """An activity of their own."""


def test_a_worker_with_an_activity_of_that_name_is_refused(tmp_path: Path) -> None:
    plugin = PerdurePlugin(Settings.load(home=tmp_path))
    with pytest.raises(InvalidInput, match="has an activity 'read_run_output'"):
        plugin.configure_worker({"task_queue": "orders", "activities": [theirs]})  # type: ignore[typeddict-item]
