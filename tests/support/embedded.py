"""The embedded model's server in a process of its own, for tests that the real model plays."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from waiting import eventually

START_S = 180.0
SERVER = "perdure.adapters.llm.embedded_server"


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def embedded_model(home: Path) -> AsyncGenerator[str]:
    """The model's server in a process of its own."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", SERVER, "--port", str(port), "--home", str(home)
    )

    async def answers() -> bool:
        assert process.returncode is None
        return await asyncio.to_thread(_healthy, f"http://127.0.0.1:{port}/health")

    try:
        await eventually(answers, seconds=START_S)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


def _healthy(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, TimeoutError, ConnectionError):
        return False
