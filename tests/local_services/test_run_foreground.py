"""`up` in the foreground, drawn by its caller."""

import asyncio
import errno
import os
from collections.abc import Callable

import pytest
from waiting import eventually

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import NotAllowed
from perdure.local_services import supervisor
from perdure.local_services.embedded_runtime import EmbeddedRuntime
from perdure.local_services.idle_shutdown import last_use, touch
from perdure.local_services.processes import is_alive
from perdure.local_services.state import HomeFiles, RuntimeState, read_state, write_state
from perdure.local_services.supervisor import supervise, up
from tests.local_services.support import processes_of

MakeSettings = Callable[..., Settings]


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_up_shows_every_state_and_ends_all_parts(settings_of: MakeSettings) -> None:
    seen: list[RuntimeState] = []
    ready = asyncio.Event()

    def on_change(state: RuntimeState) -> None:
        seen.append(state)
        if state.is_serving:
            ready.set()

    task = asyncio.create_task(up(settings_of(), on_change))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    serving = seen[-1]
    try:
        assert not serving.detached
        assert serving.status == "ready"
        assert "worker" in {part.name for part in serving.parts}
    finally:
        await _cancel(task)
    parts = [part.process for part in serving.parts]
    assert not any(part is not None and is_alive(part) for part in parts)
    assert [state.status for state in seen if state.status != "starting"][-1] == "stopped"


async def test_a_state_that_could_not_be_written_is_written_later(
    settings_of: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of()
    files = HomeFiles(settings.home)
    fails = True

    def write(files: HomeFiles, state: RuntimeState) -> None:
        if fails and state.status != "starting":
            raise OSError(errno.ENOSPC, "No space left on device")
        write_state(files, state)

    monkeypatch.setattr(supervisor, "write_state", write)
    monkeypatch.setattr(supervisor, "WRITE_AGAIN_S", 0.1)
    ready = asyncio.Event()

    def show(state: RuntimeState) -> None:
        if state.is_serving:
            ready.set()

    task = asyncio.create_task(up(settings, show))
    try:
        await ready.wait()
        known = read_state(files)
        assert known is not None and known.status == "starting"
        fails = False
        await eventually(lambda: (state := read_state(files)) is not None and state.is_serving)
    finally:
        await _cancel(task)


@pytest.mark.long
async def test_services_that_are_used_while_they_stop_as_idle_stay(
    settings_of: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of()
    seen: list[str] = []

    async def at_once(_client: object, files: HomeFiles, **_: object) -> int | None:
        touch(files)
        return last_use(files)

    def use(state: RuntimeState) -> None:
        if state.status not in seen[-1:]:
            seen.append(state.status)
        if seen.count("stopping") == 1:
            os.utime(HomeFiles(settings.home).used, (1, 1))

    monkeypatch.setattr(supervisor, "until_idle", at_once)
    assert await supervise(settings, on_change=use)
    assert seen == ["starting", "ready", "stopping", "ready", "stopping", "stopped"]


@pytest.mark.long
async def test_up_refuses_next_to_running_services(
    runtime: EmbeddedRuntime, settings_of: MakeSettings
) -> None:
    await runtime.ensure()
    before = processes_of(await runtime.state())
    with pytest.raises(NotAllowed, match="run already"):
        await up(settings_of(), lambda _: None)
    assert all(is_alive(process) for process in before)
