"""An installation that is away when their worker starts is opened late; their own work goes on."""

import asyncio
import uuid
from collections.abc import Generator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from installation import Installation
from postgresql import Postgresql, stoppable
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker
from waiting import eventually

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import PerdureError
from perdure.temporal import PerdurePlugin, activity_tool
from tests.embedding.test_plugin_clients import stock
from tests.embedding.test_plugin_parts import OnTheirQueue, Parrot
from tests.embedding.test_temporal_plugin import Order, charge


@pytest.fixture
def away() -> Generator[Postgresql]:
    """A database server that does not run."""
    with stoppable() as server:
        server.stop()
        yield server


async def _tried_in_vain(client: Client, parent: WorkflowHandle[Any, Any]) -> bool:
    """Whether the opening of the loop below a workflow waits for its second attempt."""
    [below] = (await parent.describe()).raw_description.pending_children or [None]
    if below is None:
        return False
    loop = await client.get_workflow_handle(below.workflow_id).describe()
    return any(
        one.attempt > 1 and "not open in this worker" in one.last_failure.message
        for one in loop.raw_description.pending_activities
    )


def _plugin(bare: Installation, database: str, home: Path) -> PerdurePlugin:
    told = {**bare.settings.model_dump(exclude_unset=True), "home": home, "database_url": database}
    return PerdurePlugin(Settings.load(**told), models={"parrot": Parrot()})


async def test_their_worker_works_while_the_database_is_away(
    bare: Installation, away: Postgresql, tmp_path: Path
) -> None:
    plugin = _plugin(bare, away.url, tmp_path / "late")
    client = await Client.connect(bare.address, plugins=[plugin])
    queue = f"orders-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[OnTheirQueue], activities=[charge]):
        paid = await client.execute_activity(
            charge, Order("a cup", "", {}), id=f"paid-{queue}", task_queue=queue,
            start_to_close_timeout=timedelta(seconds=30),
        )  # fmt: skip
        assert paid == "charged for a cup"
        waiting = await client.start_workflow(
            OnTheirQueue.run, args=[queue, "parrot:grey"], id=queue, task_queue=queue
        )
        await eventually(partial(_tried_in_vain, client, waiting))
        await asyncio.to_thread(away.start)
        assert (await waiting.result()).startswith("parrot:grey: ")


async def test_a_worker_that_waits_for_its_database_can_end(
    bare: Installation, away: Postgresql, tmp_path: Path
) -> None:
    plugin = _plugin(bare, away.url, tmp_path / "late")
    client = await Client.connect(bare.address, plugins=[plugin])
    async with asyncio.timeout(60):
        async with Worker(client, task_queue=uuid.uuid4().hex, activities=[charge]):
            pass


async def test_a_plugin_opens_what_it_could_not_open_before(
    bare: Installation, tmp_path: Path
) -> None:
    (blocked := tmp_path / "file").touch()
    told = {**bare.settings.model_dump(exclude_unset=True), "home": blocked / "home"}
    plugin = PerdurePlugin(
        Settings.load(**told), models={"parrot": Parrot()}, tools=[activity_tool(stock)]
    )
    client = await Client.connect(bare.address, plugins=[plugin])
    queue = f"orders-{uuid.uuid4().hex[:8]}"
    worker = Worker(client, task_queue=queue, workflows=[OnTheirQueue], activities=[stock])
    with pytest.raises(PerdureError, match="file"):
        await worker.run()
    blocked.unlink()
    async with worker:
        said = await client.execute_workflow(
            OnTheirQueue.run, args=[queue, "parrot:grey"], id=queue, task_queue=queue
        )
    assert said.startswith("parrot:grey: ")
