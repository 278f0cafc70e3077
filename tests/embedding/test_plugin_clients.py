"""One plugin with several clients: of two namespaces, of two event loops, one after another."""

import asyncio
import uuid
import warnings
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager

import pytest
from installation import Installation
from temporalio import activity
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from perdure.domain.foundation.errors import InvalidInput
from perdure.local_services.register_search_attributes import register_search_attributes
from perdure.local_services.service_commands import temporal_binary
from perdure.temporal import PerdurePlugin, activity_tool
from tests.embedding.test_temporal_plugin import Asking, Order

STOCKED = {"tool_calls": [{"name": "stock", "arguments": {"item": "cup"}}]}


@activity.defn
async def stock(item: str) -> int:
    """How many of an item are left.

    Args:
        item: its name.
    """
    return len(item)


@asynccontextmanager
async def another_server() -> AsyncGenerator[str]:
    """A second server; its namespace has the name of the first one's."""
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(temporal_binary())
    ) as server:
        await register_search_attributes(server.client)
        yield server.client.service_client.config.target_host


async def _asked(address: str, plugin: PerdurePlugin, model: str) -> str:
    """What a loop says that a new worker of a new client awaits, with a tool of the worker's."""
    client = await Client.connect(address, plugins=[plugin])
    queue = f"orders-{uuid.uuid4().hex[:8]}"
    task = {"models": {"executor": model}, "tools": {"access": "full", "allow": ["stock"]}}
    order = Order(item="a bottle", model="", task=task)
    async with Worker(client, task_queue=queue, workflows=[Asking], activities=[stock]):
        return await client.execute_workflow(Asking.run, order, id=f"o-{queue}", task_queue=queue)


async def test_a_plugin_is_used_again_with_another_worker_and_another_server(
    bare: Installation,
) -> None:
    plugin = PerdurePlugin(bare.settings, tools=[activity_tool(stock)])
    async with another_server() as elsewhere:
        for address in (bare.address, bare.address, elsewhere):
            model = await bare.script({"replies": [STOCKED, {"text": "3 are left."}]})
            async with asyncio.timeout(60):
                assert await _asked(address, plugin, model) == "3 are left."


async def test_clients_of_two_servers_share_a_plugin(bare: Installation) -> None:
    plugin = PerdurePlugin(bare.settings, tools=[activity_tool(stock)])
    models = [await bare.script({"replies": [STOCKED, {"text": one}]}) for one in ("1", "2")]
    async with another_server() as elsewhere, asyncio.timeout(60):
        told = await asyncio.gather(
            _asked(bare.address, plugin, models[0]), _asked(elsewhere, plugin, models[1])
        )
    assert told == ["1", "2"]


async def test_two_event_loops_share_a_plugin(bare: Installation) -> None:
    plugin = PerdurePlugin(bare.settings, tools=[activity_tool(stock)])
    models = [await bare.script({"replies": [STOCKED, {"text": one}]}) for one in ("1", "2")]

    def threaded(model: str) -> Awaitable[str]:
        return asyncio.to_thread(lambda: asyncio.run(_asked(bare.address, plugin, model)))

    async with asyncio.timeout(60):
        assert await asyncio.gather(*map(threaded, models)) == ["1", "2"]


@pytest.mark.parametrize("given", ["client and worker", "client twice"])
async def test_a_worker_with_two_plugins_is_refused_in_words(
    bare: Installation, given: str
) -> None:
    first, second = PerdurePlugin(bare.settings), PerdurePlugin(bare.settings)
    of_client, of_worker = ([first], [first]) if "worker" in given else ([first, second], [])
    client = await Client.connect(bare.address, plugins=of_client)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the SDK warns of the first case
        with pytest.raises(InvalidInput, match="PerdurePlugin twice"):
            Worker(client, task_queue="orders", workflows=[Asking], plugins=of_worker)
