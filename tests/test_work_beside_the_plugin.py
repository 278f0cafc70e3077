"""What somebody else's client and worker bring themselves, with the plugin beside it."""

import uuid
from typing import TypedDict

from installation import Installation
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

from perdure.temporal import PerdurePlugin


class Wanted(TypedDict):
    """A type that pydantic takes from Python 3.12 on."""

    item: str
    number: int


@workflow.defn
class Ordering:
    """A workflow of theirs without any loop."""

    @workflow.run
    async def run(self, wanted: Wanted) -> str:
        return f"{wanted['number']} × {wanted['item']}"


async def test_their_typed_dicts_reach_their_workflows(bare: Installation) -> None:
    client = await Client.connect(bare.address, plugins=[PerdurePlugin(bare.settings)])
    queue = f"orders-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[Ordering]):
        told = await client.execute_workflow(
            Ordering.run, Wanted(item="bottle", number=2), id=queue, task_queue=queue
        )
    assert told == "2 × bottle"
