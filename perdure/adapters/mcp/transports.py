"""How a server is reached: a program over its standard streams, or an address over HTTP."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import TextIO

import httpx2
from mcp import StdioServerParameters
from mcp.client._transport import Transport
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

TAIL_CHARACTERS = 400
CHUNK = 4096
HTTP_TIMEOUT_S = 30.0
READ_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a server is: a program with its variables and folder, or an address with headers.

    Args:
        name: of the server, for people.
        command: the program and its arguments, for a local server.
        folder: where a local server runs; None is an empty folder of the connection.
        environment: variables by name, for a local server; never shown.
        url: the address of a remote server.
        headers: by name, for a remote server; never shown.
    """

    name: str
    command: tuple[str, ...] = ()
    folder: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> tuple[object, ...]:
        """What tells connections apart."""
        variables = tuple(sorted(self.environment.items()))
        headers = tuple(sorted(self.headers.items()))
        return (self.name, self.command, self.folder, variables, self.url, headers)


class Tail:
    """The end of what a server wrote to its standard error; the rest is not kept."""

    def __init__(self, sink: TextIO) -> None:
        self.sink = sink
        self._text = ""

    def take(self, text: str) -> None:
        """Read on."""
        self._text = (self._text + text)[-TAIL_CHARACTERS:]

    def said(self) -> str:
        """What it said last, as the end of a sentence; empty when it said nothing."""
        last = " ".join(self._text.split())
        return f"; it said: {last}" if last else ""


@asynccontextmanager
async def listening() -> AsyncGenerator[Tail]:
    """A place for a server's standard error, of which the end is kept."""
    reading, writing = os.pipe()
    loop = asyncio.get_running_loop()
    os.set_blocking(reading, False)
    with os.fdopen(reading, "rb", buffering=0) as source, os.fdopen(writing, "w") as sink:
        tail = Tail(sink)

        def take() -> None:
            with suppress(BlockingIOError):
                tail.take((source.read(CHUNK) or b"").decode(errors="replace"))

        loop.add_reader(reading, take)
        try:
            yield tail
        finally:
            loop.remove_reader(reading)


async def transport_to(target: Target, stack: AsyncExitStack, sink: TextIO) -> Transport:
    """The SDK's transport to a server; what it needs besides is entered into the stack."""
    if target.url:
        timeout = httpx2.Timeout(HTTP_TIMEOUT_S, read=READ_TIMEOUT_S)
        client = httpx2.AsyncClient(headers=dict(target.headers), timeout=timeout, trust_env=False)
        http = await stack.enter_async_context(client)
        return streamable_http_client(target.url, http_client=http)
    folder = target.folder or stack.enter_context(TemporaryDirectory(prefix="perdure-mcp-"))
    program, *arguments = target.command
    parameters = StdioServerParameters(
        command=program, args=arguments, env=dict(target.environment), cwd=folder
    )
    return stdio_client(parameters, errlog=sink)
