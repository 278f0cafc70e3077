"""What serves the loops of a worker starts and ends with it, also if that is cancelled."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio.client import Client
from temporalio.worker import Worker
from waiting import eventually

from perdure import temporal
from perdure.adapters.settings.variables import Settings
from perdure.temporal import PerdurePlugin

NOWHERE = "127.0.0.1:9"  # nothing here connects


async def _lasts(_worker: Worker) -> None:
    await asyncio.Event().wait()


async def _run(plugin: PerdurePlugin) -> None:
    """Run a worker that has nothing of its own."""
    client = await Client.connect(NOWHERE, lazy=True, plugins=[plugin])
    worker = SimpleNamespace(client=client, task_queue="orders")
    await plugin.run_worker(cast(Worker, worker), _lasts)


async def test_a_start_that_is_cancelled_serves_nothing_and_the_next_worker_starts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[Client] = []

    async def hangs(client: Client) -> None:
        starts.append(client)
        await asyncio.Event().wait()

    monkeypatch.setattr(temporal, "register_search_attributes", hangs)
    plugin = PerdurePlugin(Settings.load(home=tmp_path))
    before = asyncio.all_tasks()
    first, second = (asyncio.create_task(_run(plugin)) for _ in range(2))
    await eventually(lambda: starts)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await eventually(lambda: starts[1:])
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert len(starts) == 2
    assert asyncio.all_tasks() == before
