"""Speaks with a local MCP server over its standard streams, within the bounds of what it may say.

It stands in for the SDK's `stdio_client`, which reads without bounds. A server that goes beyond
its bounds counts as ended, and its program is ended too.
"""

import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TextIO

import anyio
from anyio.abc import Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import StdioServerParameters
from mcp.client._transport import TransportStreams
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from perdure.adapters.mcp.bounds import Messages, TooMuch

CHUNK = 64 * 1024
PATIENCE_S = 2.0
LOOKS = 200
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)
_Incoming = MemoryObjectSendStream[SessionMessage | Exception]
_Outgoing = MemoryObjectReceiveStream[SessionMessage]


@asynccontextmanager
async def local_transport(
    server: StdioServerParameters, *, errlog: TextIO, on_excess: Callable[[str], None]
) -> AsyncGenerator[TransportStreams]:
    """Start a server and connect to it; the program and all it started end with the block.

    Args:
        server: its program, arguments, folder and variables.
        errlog: takes its standard error.
        on_excess: told what the server did when it went beyond its bounds.

    Raises:
        OSError: the program cannot be started.
    """
    process = await anyio.open_process(
        [server.command, *server.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errlog,
        cwd=server.cwd,
        # Not the worker's environment, which holds its keys.
        env=get_default_environment() | (server.env or {}),
        start_new_session=True,
    )
    # Without a buffer, so that a server is read no faster than its messages are taken.
    arriving, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sending, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    async with AsyncExitStack() as stack:
        for stream in (received, sending):
            stack.callback(stream.close)
        # Before the tasks, so that they have let go of the pipes when the server is ended.
        stack.push_async_callback(_end_server, process)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(_read, process, arriving, on_excess)
        tasks.start_soon(_write, process, leaving)
        try:
            yield received, sending
        finally:
            tasks.cancel_scope.cancel()


async def _read(process: Process, arriving: _Incoming, on_excess: Callable[[str], None]) -> None:
    output, messages = process.stdout, Messages()
    if output is None:
        return
    with arriving, suppress(*_GONE):
        while True:
            chunk = await output.receive(CHUNK)
            try:
                for message in messages.feed(chunk):
                    await arriving.send(SessionMessage(message))
            except TooMuch as excess:
                on_excess(str(excess))
                return


async def _write(process: Process, leaving: _Outgoing) -> None:
    commands = process.stdin
    if commands is None:
        return
    with leaving, suppress(*_GONE):
        async for sent in leaving:
            text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            await commands.send(text.encode() + b"\n")


async def _end_server(process: Process) -> None:
    """End a server: close its input, then ask it to end, then kill it with all it started."""
    with anyio.CancelScope(shield=True):
        if process.stdin is not None:
            with suppress(*_GONE):
                await process.stdin.aclose()
        for sent in (signal.SIGTERM, signal.SIGKILL):
            # Not `process.wait()`: it also waits for whoever inherited the pipes.
            for _ in range(LOOKS):
                if process.returncode is not None:
                    break
                await anyio.sleep(PATIENCE_S / LOOKS)
            # Even if the server has ended by itself: what it started may still run.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, sent)
        with suppress(*_GONE):
            await process.aclose()
