"""What `down` ends, and how long it waits, with stubs instead of services."""

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.domain.ports import Endpoints
from perdure.local_services import embedded
from perdure.local_services.embedded import EmbeddedRuntime
from perdure.local_services.processes import ProcessRef, process_ref
from perdure.local_services.state import HomeFiles, PartState, RuntimeState, write_state
from tests.local_services.support import python

MakeSettings = Callable[..., Settings]
# Says that it drains, and ends a moment after it was asked to.
DRAINS = (
    "import signal, sys, time\n"
    "def drain(*_): time.sleep(0.5); print('drained', flush=True); sys.exit()\n"
    "signal.signal(signal.SIGTERM, drain)\n"
    "print('up', flush=True)\n"
    "signal.pause()\n"
)
GONE = ProcessRef(pid=2**22 + 1, started="never")


@asynccontextmanager
async def draining() -> AsyncIterator[tuple[Process, ProcessRef]]:
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


def runs(home: Path, supervisor: ProcessRef, *, worker: ProcessRef | None, grace_s: float) -> None:
    """Write the state of services with this supervisor and worker."""
    files = HomeFiles(home)
    files.make()
    state = RuntimeState(
        supervisor=supervisor,
        status="ready",
        endpoints=Endpoints(temporal_address="127.0.0.1:1", namespace="default", home=str(home)),
        parts=(PartState(name="worker", status="running", process=worker),),
        started_at=datetime.now(UTC),
        grace_s=grace_s,
    )
    write_state(files, state)


@pytest.mark.parametrize("leftover", [False, True], ids=["supervisor", "leftover"])
async def test_services_drain_for_as_long_as_they_were_started_with(
    home: Path, settings_of: MakeSettings, monkeypatch: pytest.MonkeyPatch, leftover: bool
) -> None:
    monkeypatch.setattr(embedded, "STOP_WITHIN_S", 0)
    async with draining() as (process, ends):
        supervisor, worker = (GONE, ends) if leftover else (ends, None)
        runs(home, supervisor, worker=worker, grace_s=30)
        assert await EmbeddedRuntime(settings_of(shutdown_grace_s=0)).down()
        assert (await process.communicate())[0] == b"drained\n"
