"""A loopback port for servers that tests play; whoever is still connected at the end is cut off."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def accepting(serve: Serve) -> AsyncGenerator[int]:
    """Listen on a free port of this machine, and serve each connection; gives the port."""
    under_way: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        under_way.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the test is over; asyncio would report it as a fault of the callback
        finally:
            under_way.discard(task)
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
