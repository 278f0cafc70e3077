"""A dev server with a database file in a process of its own, which a test may kill."""

import asyncio
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from installation import FAST_SERVER
from temporalio.client import Client
from waiting import eventually

from perdure.local_services.register_search_attributes import register_search_attributes
from perdure.local_services.service_commands import SQLITE_PRAGMAS, temporal_binary


class ServerProcess:
    """Starts on the same ports and the same file each time."""

    def __init__(self, folder: Path, *, ui: bool = False) -> None:
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self.port = _free_port()
        self._ui_port = _free_port() if ui else None

    @property
    def ui_url(self) -> str:
        """Where its Web UI is, if it has one."""
        return f"http://127.0.0.1:{self._ui_port}"

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start, and wait until it answers."""
        pragmas = [word for pragma in SQLITE_PRAGMAS for word in ("--sqlite-pragma", pragma)]
        ui = ["--headless"] if self._ui_port is None else ["--ui-port", str(self._ui_port)]
        with (self._folder / "server.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                str(temporal_binary()), "server", "start-dev", *ui,
                "--port", str(self.port), "--db-filename", str(self._folder / "temporal.db"),
                *FAST_SERVER, *pragmas, stdout=log, stderr=log,
            )  # fmt: skip
        await eventually(self._answers)

    async def _answers(self) -> bool:
        try:
            client = await Client.connect(self.address)
            await register_search_attributes(client)
        except RuntimeError:
            return False
        return True

    async def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()


@asynccontextmanager
async def server_process(folder: Path, *, ui: bool = False) -> AsyncGenerator[ServerProcess]:
    """A running server, killed at the end."""
    server = ServerProcess(folder, ui=ui)
    await server.start()
    try:
        yield server
    finally:
        await server.kill()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
