"""Tools that compute in processes of their own: the worker goes on, and takes them with it."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import psutil
import pytest
from agent_runs import call, calls, results, script, task
from installation import Installation, installation
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

pytestmark = pytest.mark.long

# As a person would write them; before Python 3.14 `fork` is what Linux uses by default.
PLUGIN = """
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

from perdure import tool

forking = multiprocessing.get_context("fork")
kept = []


def square(number: int) -> int:
    return number * number


@tool(name="own.pool", access="read", idempotent=True)
def pool() -> list[int]:
    "Squares."
    with forking.Pool(2) as processes:
        return processes.map(square, range(4))


@tool(name="own.executor", access="read", idempotent=True)
def executor() -> list[int]:
    "Squares."
    with ProcessPoolExecutor(2, mp_context=forking) as processes:
        return list(processes.map(square, range(4)))


@tool(name="own.fresh", access="read", idempotent=True, timeout_s=60)
def fresh() -> list[int]:
    "Squares, from processes that are not forked off and import what they call."
    import figures

    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as processes:
        return list(processes.map(figures.square, range(4)))


@tool(name="own.ended", access="read", idempotent=True)
def ended() -> int | None:
    "How a process ends that is told to."
    process = forking.Process(target=time.sleep, args=(600,))
    process.start()
    process.terminate()
    process.join(10)
    return process.exitcode


@tool(name="own.kept", access="read", idempotent=True)
def keep() -> list[int]:
    "Squares, from a pool that stays."
    kept.append(forking.Pool(2))
    return kept[0].map(square, range(4))
"""
SQUARES = "[\n  0,\n  1,\n  4,\n  9\n]"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own.pool", SQUARES),
        ("own.executor", SQUARES),
        ("own.fresh", SQUARES),
        ("own.ended", "-15"),
    ],
    ids=["a pool", "an executor", "fresh ones", "one that is ended"],
)
async def test_a_worker_outlasts_the_processes_of_its_tools(
    server: WorkflowEnvironment, tmp_path: Path, name: str, said: str
) -> None:
    async with own(server, tmp_path) as site, site.worker_process() as worker:
        asked = script(calls(call(name)), {"text": "Done."})
        result = await site.run(task(tools={"allow": [name]}), asked)
        assert [block.text for block in await results(site, result)] == [said]
        assert "worker_drains" not in (site.home / "worker.log").read_text()
        assert worker.code is None


@pytest.mark.parametrize("times", [1, 2], ids=["drained", "at once"])
async def test_they_end_with_their_worker(
    server: WorkflowEnvironment, tmp_path: Path, times: int
) -> None:
    async with own(server, tmp_path) as site, site.worker_process() as worker:
        asked = script(calls(call("own.kept")), {"text": "Done."})
        await site.run(task(tools={"allow": ["own.kept"]}), asked)
        forked = psutil.Process(worker.pid).children()
        assert len(forked) >= 2
        for _ in range(times):
            worker.ask_to_end()
        await worker.gone()
        await eventually(lambda: not any(process.is_running() for process in forked))


def own(server: WorkflowEnvironment, folder: Path) -> AbstractAsyncContextManager[Installation]:
    """An installation with the plugin; its worker is for a test to start."""
    plugin = folder / "own.py"
    plugin.write_text(PLUGIN)
    (folder / "figures.py").write_text("def square(number):\n    return number * number\n")
    address = server.client.service_client.config.target_host
    return installation(folder / "home", address, plugins=(str(plugin),))
