"""What serves the loops of a worker starts and ends with it, also if that is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio.client import Client
from temporalio.worker import Worker
from waiting import eventually

from perdure import temporal
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.temporal import PerdurePlugin

NOWHERE = "127.0.0.1:9"  # nothing here connects


async def _lasts(_worker: Worker) -> None:
    await asyncio.Event().wait()


async def _run(plugin: PerdurePlugin, work: Callable[[Worker], Awaitable[None]] = _lasts) -> None:
    """Run a worker beside which nothing but `work` goes on."""
    client = await Client.connect(NOWHERE, lazy=True, plugins=[plugin])
    made = {"task_queue": "orders"}
    worker = SimpleNamespace(client=client, **made, config=lambda **_: made)
    await plugin.run_worker(cast(Worker, worker), work)


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


async def test_loops_that_are_served_no_more_are_no_cancellation_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever cancels the task that serves them, the worker's end says what happened."""

    async def broken(_client: Client) -> None:
        serving = asyncio.current_task()
        assert serving is not None
        serving.cancel()

    monkeypatch.setattr(temporal, "register_search_attributes", broken)
    with pytest.raises(ServiceUnavailable, match="nobody had asked it to"):
        await _run(PerdurePlugin(Settings.load(home=tmp_path)))


async def test_a_worker_whose_loops_are_cancelled_while_it_runs_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(loops: temporal._Loops) -> None:
        loops._begun.set()
        await asyncio.sleep(0.1)
        raise asyncio.CancelledError

    monkeypatch.setattr(temporal._Loops, "_serve", broken)
    with pytest.raises(ServiceUnavailable, match="nobody had asked it to"):
        await _run(PerdurePlugin(Settings.load(home=tmp_path)))


async def test_a_worker_that_is_cancelled_cancels_what_drains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second cancellation ends the drain of the loops, which the first one began."""
    seen: list[str] = []

    async def begins(_worker: Worker) -> None:
        seen.append("begins")
        await asyncio.Event().wait()

    async def drains(loops: temporal._Loops) -> None:
        loops._begun.set()
        await loops._stop.wait()
        seen.append("drains")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cut")

    monkeypatch.setattr(temporal._Loops, "_serve", drains)
    running = asyncio.create_task(_run(PerdurePlugin(Settings.load(home=tmp_path)), begins))
    await eventually(lambda: seen)
    running.cancel()
    await eventually(lambda: seen[1:])
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert seen == ["begins", "drains", "cut"]


async def test_what_broke_the_worker_is_raised_and_not_what_ended_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(_worker: Worker) -> None:
        raise ValueError("theirs")

    async def drains(loops: temporal._Loops) -> None:
        loops._begun.set()
        await loops._stop.wait()
        raise ServiceUnavailable("ours")

    monkeypatch.setattr(temporal._Loops, "_serve", drains)
    with pytest.raises(ValueError, match="theirs"):
        await _run(PerdurePlugin(Settings.load(home=tmp_path)), breaks)
