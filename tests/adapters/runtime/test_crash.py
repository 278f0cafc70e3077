"""A supervisor that is killed: nothing of it stays, and nothing else is ever touched."""

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from waiting import eventually

from perdure.adapters.runtime import EmbeddedRuntime
from perdure.adapters.runtime.processes import end, is_alive, process_ref
from perdure.adapters.runtime.state import HomeFiles, read_state, write_state
from tests.adapters.runtime.support import (
    STUBBORN_WORKER,
    any_of_home,
    kill,
    process_of,
    processes_of,
    python,
)

MakeRuntime = Callable[..., EmbeddedRuntime]


@pytest.mark.skipif(sys.platform != "linux", reason="needs the parent-death signal")
async def test_parts_follow_a_killed_supervisor(runtime: EmbeddedRuntime) -> None:
    await runtime.ensure()
    state = await runtime.state()
    assert state is not None
    kill(state.supervisor)
    await eventually(lambda: not any(is_alive(process) for process in processes_of(state)))


async def test_next_start_ends_what_a_killed_supervisor_left(
    runtime_of: MakeRuntime, home: Path
) -> None:
    runtime = runtime_of(worker_command=python(STUBBORN_WORKER), shutdown_grace_s=0)
    first = await runtime.ensure()
    state = await runtime.state()
    assert state is not None
    kill(state.supervisor)
    await eventually(lambda: not is_alive(process_of(state, "temporal")))
    assert is_alive(process_of(state, "worker"))

    assert await runtime.ensure() == first
    assert not is_alive(process_of(state, "worker"))
    assert len(any_of_home(home)) == 3


async def test_down_after_a_crash_ends_leftovers(runtime_of: MakeRuntime, home: Path) -> None:
    runtime = runtime_of(worker_command=python(STUBBORN_WORKER), shutdown_grace_s=0)
    await runtime.ensure()
    state = await runtime.state()
    assert state is not None
    kill(state.supervisor)
    await eventually(lambda: not is_alive(state.supervisor))
    assert await runtime.down()
    assert any_of_home(home) == []


@pytest.fixture
async def bystander() -> AsyncIterator[int]:
    import asyncio

    process = await asyncio.create_subprocess_exec(*python("import signal; signal.pause()"))
    try:
        yield process.pid
    finally:
        process.kill()
        await process.wait()


async def test_a_reused_process_id_is_not_ended(
    runtime: EmbeddedRuntime, home: Path, bystander: int
) -> None:
    await runtime.ensure()
    await runtime.down()
    files = HomeFiles(home)
    state = read_state(files)
    innocent = process_ref(bystander)
    assert state is not None and innocent is not None
    stale = innocent.model_copy(update={"started": "long ago"})
    parts = tuple(part.model_copy(update={"process": stale}) for part in state.parts)
    write_state(files, state.model_copy(update={"parts": parts, "supervisor": stale}))

    assert not await runtime.down()
    assert not await end(stale, grace_s=0)
    assert is_alive(innocent)
