"""A worker that ends unasked ends its process, with words and a code that is not zero."""

import asyncio
from pathlib import Path

import pytest
from installation import Installation, WorkerProcess
from waiting import eventually

from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.fleet.serving_task import while_both_run

FAULTS = {
    "the SDK's worker breaks": """
import asyncio
from temporalio.worker import _activity

async def run(self):
    await asyncio.sleep(2)
    raise RuntimeError("injected")

_activity._ActivityWorker.run = run
""",
    # Only one that serves ends unasked: an exit before it is ready is one of the start.
    "an exit leaves through the event loop": """
import asyncio, os, sys

def leave():
    if os.path.exists(os.environ["PERDURE_READY_FILE"]):
        sys.exit(0)
    loop.call_later(0.1, leave)

loop = asyncio.get_running_loop()
loop.call_soon(leave)
""",
}


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_process_that_no_longer_polls_ends(
    bare: Installation, tmp_path: Path, fault: str
) -> None:
    (tmp_path / "fault.py").write_text(fault)
    more = {"PERDURE_PLUGINS": str(tmp_path / "fault.py"), "PERDURE_SHUTDOWN_GRACE_S": "1"}
    process = WorkerProcess(bare, more)
    try:
        await process.start(may_die=True)
        await eventually(lambda: process.code is not None)
        assert process.code == ServiceUnavailable.exit_code
    finally:
        await process.end()
    assert "worker_ends_unasked" in (bare.home / "worker.log").read_text()


async def test_loops_that_are_served_no_more_are_no_cancellation_of_the_program() -> None:
    async def lasts() -> None:
        await asyncio.Event().wait()

    serving = asyncio.create_task(lasts())
    asyncio.get_running_loop().call_soon(serving.cancel)
    with pytest.raises(ServiceUnavailable, match="nobody had asked it to"):
        await while_both_run(asyncio.ensure_future(lasts()), serving)
