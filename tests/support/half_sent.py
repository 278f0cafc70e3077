"""Callers who send half a request and wait: what shuts everybody else out where nobody counts."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

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
