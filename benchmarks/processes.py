"""Worker processes: started with the basic environment alone, awaited, measured, and ended."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from perdure.adapters.settings.variables import inherited_environment

START_S = 60.0
GRACE_S = 20.0
LOOK_S = 0.05
LOG_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A worker that polls its queues."""

    process: psutil.Process

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        times = self.process.cpu_times()
        return times.user + times.system


@asynccontextmanager
async def worker_process(
    command: Sequence[str], *, environment: Mapping[str, str], ready: Path, log: Path
) -> AsyncGenerator[WorkerProcess]:
    """Run a worker until the block ends.

    Args:
        command: the program and its arguments.
        environment: variables beside the basic ones; the caller's own do not reach the worker.
        ready: the file that the worker writes when it polls.
        log: where its output goes.

    Raises:
        RuntimeError: it ended, or did not become ready in time; the message ends with its log.
    """
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**inherited_environment(minimal=True), **environment},
            stdout=output,
            stderr=output,
        )
    try:
        await _until_ready(process, ready, log)
        yield WorkerProcess(psutil.Process(process.pid))
    finally:
        await end(process)


async def _until_ready(process: asyncio.subprocess.Process, ready: Path, log: Path) -> None:
    clock = asyncio.get_running_loop().time
    deadline = clock() + START_S
    while not ready.exists():
        if process.returncode is not None or clock() > deadline:
            said = log.read_text(encoding="utf-8", errors="replace")[-LOG_CHARACTERS:]
            raise RuntimeError(
                f"The worker did not poll within {START_S:.0f} s "
                f"(exit code {process.returncode}). Its log ends:\n{said}"
            )
        await asyncio.sleep(LOOK_S)


async def end(process: asyncio.subprocess.Process) -> None:
    """Ask a process to end, and kill it if it does not."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), GRACE_S)
    except TimeoutError:
        process.kill()
        await process.wait()
