"""What tests of enclosed programs look at from outside: processes that stayed, the own network."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psutil
import pytest
from accepting import accepting


def _obstacle() -> str:
    """Why no sandbox can be had here; empty where it can."""
    path = shutil.which("bwrap")
    if path is None:
        return "bubblewrap is not installed: make sandbox-setup"
    argv = [path, "--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "/bin/true"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    return f"bubblewrap does not work here: {done.stderr.strip()}" if done.returncode else ""


OBSTACLE = _obstacle()
needs_bubblewrap = pytest.mark.skipif(bool(OBSTACLE), reason=OBSTACLE)


def left(mark: str) -> list[int]:
    """Processes whose command line holds a mark."""
    found: list[int] = []
    for process in psutil.process_iter(["cmdline"]):
        if any(mark in word for word in process.info["cmdline"] or ()):
            found.append(process.pid)
    return found


@dataclass
class Listener:
    """A port of this machine; `calls` counts who came."""

    port: int
    calls: int = 0

    @property
    def program(self) -> str:
        """Python code that connects to it."""
        return f"import socket; socket.create_connection(('127.0.0.1', {self.port}), 2)"


@asynccontextmanager
async def listening() -> AsyncGenerator[Listener]:
    """A port of the loopback device that answers everybody who gets to it, tried from here."""
    came = asyncio.Event()

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.calls += 1
        came.set()
        writer.close()

    async with accepting(greet) as port:
        listener = Listener(port)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await came.wait()
        listener.calls = 0
        yield listener
