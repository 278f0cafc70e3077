"""A supervisor that is killed: nothing of it stays, and nothing else is ever touched."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from waiting import eventually

from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.local_services.embedded_runtime import EmbeddedRuntime
from perdure.local_services.processes import end, is_alive, process_ref
from perdure.local_services.state import HomeFiles, RuntimeState, read_state, write_state
from perdure.local_services.watcher import is_wanted
from perdure.local_services.watcher_link import SCRIPT
from tests.local_services.support import (
    STUBBORN_WORKER,
    any_of_home,
    kill,
    kill_with_watcher,
    process_of,
    processes_of,
    python,
)

MakeRuntime = Callable[..., EmbeddedRuntime]


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="needs the parent-death signal")
async def test_parts_follow_a_killed_supervisor(runtime: EmbeddedRuntime) -> None:
    await runtime.ensure()
    state = await runtime.state()
    assert state is not None
    kill_with_watcher(state)
    await eventually(lambda: not any(is_alive(process) for process in processes_of(state)))


@pytest.mark.long
async def test_next_start_ends_what_a_killed_supervisor_left(
    runtime_of: MakeRuntime, home: Path
) -> None:
    runtime = runtime_of(worker_command=python(STUBBORN_WORKER), shutdown_grace_s=0)
    first = await runtime.ensure()
    state = await runtime.state()
    assert state is not None
    kill_with_watcher(state)
    await eventually(lambda: not is_alive(process_of(state, "temporal")))
    assert is_alive(process_of(state, "worker"))

    assert await runtime.ensure() == first
    assert not is_alive(process_of(state, "worker"))
    assert len(any_of_home(home)) == 4


async def test_down_after_a_crash_ends_leftovers(runtime_of: MakeRuntime, home: Path) -> None:
    runtime = runtime_of(worker_command=python(STUBBORN_WORKER), shutdown_grace_s=0)
    await runtime.ensure()
    state = await runtime.state()
    assert state is not None
    kill(state.supervisor)
    await eventually(lambda: not is_alive(state.supervisor))
    assert await runtime.down()
    assert any_of_home(home) == []


@pytest.mark.slow
async def test_a_killed_supervisor_comes_back_by_itself(
    runtime: EmbeddedRuntime, home: Path
) -> None:
    first = await runtime.ensure()
    state = await runtime.state()
    assert state is not None
    kill(state.supervisor)

    async def again() -> RuntimeState | None:
        now = await runtime.state()
        # A process that was killed stays for a moment, and so does what it wrote.
        if now is None or now.supervisor == state.supervisor:
            return None
        return now if now.is_serving else None

    after = await eventually(again)
    assert after is not None
    assert after.endpoints == first
    assert after.supervisor == state.watcher, "the watcher became the supervisor"
    assert after.watcher not in (None, state.watcher), "and has a watcher of its own"
    assert await runtime.ensure() == first
    assert await runtime.down()
    assert any_of_home(home) == []


@pytest.mark.slow
async def test_a_killed_watcher_is_replaced(runtime: EmbeddedRuntime) -> None:
    await runtime.ensure()
    state = await runtime.state()
    assert state is not None and state.watcher is not None
    kill(state.watcher)

    async def another() -> bool:
        now = await runtime.state()
        assert now is not None
        return now.watcher not in (None, state.watcher)

    await eventually(another)
    now = await runtime.state()
    assert now is not None
    assert now.supervisor == state.supervisor, "the services go on"


@pytest.mark.parametrize(
    ("status", "deaths", "named", "wanted"),
    [
        pytest.param("ready", 0, True, True, id="it served"),
        pytest.param("ready", 0, False, False, id="another one serves"),
        pytest.param("starting", 0, True, False, id="who started it is told"),
        pytest.param("starting", 1, True, True, id="the watcher started it"),
        pytest.param("stopped", 0, True, True, id="it broke"),
    ],
)
def test_who_is_started_again(
    tmp_path: Path, status: str, deaths: int, named: bool, wanted: bool
) -> None:
    (tmp_path / "state.json").write_text(
        json.dumps({"supervisor": {"pid": 7 if named else 8}, "status": status})
    )
    assert is_wanted(tmp_path, 7, deaths) == wanted


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"supervisor": 7, "status": "ready"}'])
def test_a_state_that_says_nothing_starts_nobody(tmp_path: Path, text: str) -> None:
    assert not is_wanted(tmp_path, 7, 0)
    (tmp_path / "state.json").write_text(text)
    assert not is_wanted(tmp_path, 7, 0)


def test_a_full_disk_keeps_no_supervisor_from_coming_back(tmp_path: Path) -> None:
    """Its log takes no line; the next supervisor says on its errors why it ends at once."""
    state = tmp_path / "state.json"
    state.write_text('{"supervisor": {"pid": 7}, "status": "ready"}')
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ended = subprocess.run(
            [sys.executable, "-I", "-S", str(SCRIPT), str(tmp_path), "7", "0"],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PERDURE_HOME": str(state / "no folder")},
            check=False,
        )
    assert b"supervisor_failed" in ended.stderr
    assert ended.returncode == RuntimeUnavailable.exit_code


@pytest.fixture
async def bystander() -> AsyncIterator[int]:
    import asyncio

    process = await asyncio.create_subprocess_exec(*python("import signal; signal.pause()"))
    try:
        yield process.pid
    finally:
        process.kill()
        await process.wait()


@pytest.mark.long
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
