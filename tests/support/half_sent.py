"""Callers who send half a request and wait: what shuts everybody else out where nobody counts."""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

HALF = b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx-half: "


@asynccontextmanager
async def half_sent(port: int, count: int, said: bytes = HALF) -> AsyncGenerator[None]:
    """Hold `count` connections open that have said only this."""
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    for _, writer in held:
        writer.write(said)
    try:
        yield
    finally:
        for _, writer in held:
            writer.transport.abort()


async def exchange(port: int, said: bytes, *, within_s: float = 30) -> bytes:
    """Say something, and read all that comes until the other side ends; b"" when it only ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(said)
        async with asyncio.timeout(within_s):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def dripped(port: int, said: bytes, *, every_s: float, at_most_s: float) -> float:
    """Say something byte by byte, again and again; how long the other side listened to it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    clock = asyncio.get_running_loop().time
    began = clock()
    ended = asyncio.create_task(reader.read())
    try:
        for byte in itertools.chain(said, itertools.repeat(ord("x"))):
            await asyncio.wait({ended}, timeout=every_s)
            if ended.done() or clock() - began > at_most_s:
                break
            writer.write(bytes([byte]))
        return clock() - began
    finally:
        ended.cancel()
        with suppress(ConnectionError, asyncio.CancelledError):
            await ended
        writer.transport.abort()
