"""What `down` ends, and how long it waits, with stubs instead of services."""

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.local_services import embedded_runtime
from perdure.local_services.embedded_runtime import EmbeddedRuntime
from perdure.local_services.processes import ProcessRef, process_ref
from perdure.local_services.state import PartState
from tests.local_services.support import GONE, python, write

MakeSettings = Callable[..., Settings]
# Says that it drains, and ends a moment after it was asked to. Not by `print`: a signal may come
# while the first one is still at work, and a second one inside it fails.
DRAINS = (
    "import os, signal, time\n"
    "def drain(*_): time.sleep(0.5); os.write(1, b'drained\\n'); os._exit(0)\n"
    "signal.signal(signal.SIGTERM, drain)\n"
    "os.write(1, b'up\\n')\n"
    "while True: signal.pause()\n"
)


@asynccontextmanager
async def draining() -> AsyncGenerator[tuple[Process, ProcessRef]]:
    process = await asyncio.create_subprocess_exec(*python(DRAINS), stdout=PIPE)
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"up\n"
        reference = process_ref(process.pid)
        assert reference is not None
        yield process, reference
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("leftover", [False, True], ids=["supervisor", "leftover"])
async def test_services_drain_for_as_long_as_they_were_started_with(
    home: Path, settings_of: MakeSettings, monkeypatch: pytest.MonkeyPatch, leftover: bool
) -> None:
    monkeypatch.setattr(embedded_runtime, "STOP_WITHIN_S", 0)
    async with draining() as (process, ends):
        supervisor, worker = (GONE, ends) if leftover else (ends, None)
        parts = (PartState(name="worker", status="running", process=worker),)
        write(home, supervisor=supervisor, parts=parts, grace_s=30)
        assert await EmbeddedRuntime(settings_of(shutdown_grace_s=0)).down()
        assert (await process.communicate())[0] == b"drained\n"


@pytest.mark.parametrize("which", ["supervisor", "watcher", "leftover"])
async def test_what_another_user_started_is_named_at_once(
    home: Path, settings_of: MakeSettings, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    def refuses(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    async with draining() as (_, stays):
        worker = stays if which == "leftover" else None
        write(
            home,
            supervisor=stays if which == "supervisor" else GONE,
            watcher=stays if which == "watcher" else None,
            parts=(PartState(name="worker", status="running", process=worker),),
        )
        with monkeypatch.context() as system:
            system.setattr(os, "kill", refuses)
            system.setattr(os, "killpg", refuses)
            async with asyncio.timeout(10):
                told = f"process {stays.pid} of the user .*kill"
                with pytest.raises(RuntimeUnavailable, match=told):
                    await EmbeddedRuntime(settings_of(shutdown_grace_s=60)).down()
