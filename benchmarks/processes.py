"""Worker processes: started with the basic environment alone, awaited, measured, ended, killed."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from perdure.adapters.settings.variables import inherited_environment

START_S = 120.0
GRACE_S = 20.0
LOOK_S = 0.02
LOG_CHARACTERS = 2_000


class WorkerProcess:
    """A worker that polls its queues, in a process that may be killed and started again."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], ready: Path, log: Path
    ) -> None:
        """Not yet started.

        Args:
            command: the program and its arguments.
            environment: variables beside the basic ones; the caller's own do not reach it.
            ready: the file that the worker writes when it polls.
            log: where its output goes.
        """
        self._command = command
        self._environment = environment
        self._ready = ready
        self._log = log
        self._running: asyncio.subprocess.Process | None = None

    @property
    def process(self) -> psutil.Process:
        """The process, to be measured."""
        if self._running is None:
            raise RuntimeError("The worker was not started.")
        return psutil.Process(self._running.pid)

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        times = self.process.cpu_times()
        return times.user + times.system

    def resident_bytes(self) -> int:
        """Its memory."""
        return self.process.memory_info().rss

    async def start(self) -> None:
        """Start it, and wait until it polls.

        Raises:
            RuntimeError: it ended, or did not become ready in time; the message ends with its log.
        """
        self._ready.unlink(missing_ok=True)
        with self._log.open("ab") as output:
            self._running = await asyncio.create_subprocess_exec(
                *self._command,
                env={**inherited_environment(minimal=True), **self._environment},
                stdout=output,
                stderr=output,
            )
        clock = asyncio.get_running_loop().time
        deadline = clock() + START_S
        while not self._ready.exists():
            if self._running.returncode is not None or clock() > deadline:
                said = self._log.read_text(encoding="utf-8", errors="replace")[-LOG_CHARACTERS:]
                raise RuntimeError(
                    f"The worker did not poll within {START_S:.0f} s "
                    f"(exit code {self._running.returncode}). Its log ends:\n{said}"
                )
            await asyncio.sleep(LOOK_S)

    async def kill(self) -> None:
        """End it as a crash would."""
        if self._running is not None and self._running.returncode is None:
            self._running.kill()
            await self._running.wait()

    async def end(self) -> None:
        """Ask it to end, and kill it if it does not."""
        if self._running is not None:
            await ended(self._running)


async def ended(process: asyncio.subprocess.Process) -> None:
    """Ask a process to end, and kill it if it does not."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), GRACE_S)
    except TimeoutError:
        process.kill()
        await process.wait()


@asynccontextmanager
async def started(worker: WorkerProcess) -> AsyncGenerator[WorkerProcess]:
    """Run a worker until the block ends."""
    try:
        await worker.start()
        yield worker
    finally:
        await worker.end()
