"""`up` in the foreground, drawn by its caller."""

import asyncio
from collections.abc import Callable

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import NotAllowed
from perdure.local_services.embedded import EmbeddedRuntime
from perdure.local_services.processes import is_alive
from perdure.local_services.state import RuntimeState
from perdure.local_services.supervisor import up
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


@pytest.mark.long
async def test_up_refuses_next_to_running_services(
    runtime: EmbeddedRuntime, settings_of: MakeSettings
) -> None:
    await runtime.ensure()
    before = processes_of(await runtime.state())
    with pytest.raises(NotAllowed, match="run already"):
        await up(settings_of(), lambda _: None)
    assert all(is_alive(process) for process in before)
