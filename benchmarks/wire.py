"""A wire to the server that can be cut, so that an answer is known here but not reported there."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

CHUNK = 65_536


class Wire:
    """Passes bytes on between a port of its own and an address, unless it is cut."""

    def __init__(self, target: str) -> None:
        """Not yet open.

        Args:
            target: host and port.
        """
        self._host, _, self._port = target.rpartition(":")
        self._whole = asyncio.Event()
        self._whole.set()
        self._pipes: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """Pass nothing on; what is sent meanwhile waits."""
        self._whole.clear()

    async def renew(self) -> None:
        """Drop all connections, with what waited in them, and pass new ones on."""
        pipes = tuple(self._pipes)
        for pipe in pipes:
            pipe.cancel()
        await asyncio.gather(*pipes, return_exceptions=True)
        self._whole.set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        far_reader, far_writer = await asyncio.open_connection(self._host, int(self._port))
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            pipe = asyncio.create_task(self._pass_on(source, sink))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(CHUNK):
                await self._whole.wait()
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass  # one end was killed; the other sees its connection close
        finally:
            sink.close()


@asynccontextmanager
async def wire_to(target: str) -> AsyncGenerator[tuple[Wire, str]]:
    """A wire, and the address that workers connect to."""
    wire = Wire(target)
    server = await asyncio.start_server(wire.connected, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield wire, f"{host}:{port}"
    finally:
        server.close()
        await wire.renew()
