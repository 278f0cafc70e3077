"""A loopback TCP proxy before the server that loses the answer to one request of a worker."""

import asyncio
import gzip
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from accepting import accepting

CHUNK = 65_536
PREFACE = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
FRAME_HEAD = 9
MESSAGE_HEAD = 5
# Long enough for the server to take the request, short for those who wait for its answer.
LOSS_S = 1.0


class DroppingProxy:
    """Passes everything on; after `arm`, the first request with these bytes gets no answer.

    The request itself reaches the server. What the server says from then on is dropped, and a
    moment later the connection breaks, as it does when a network goes away.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._wanted: bytes | None = None
        self.address = ""
        self.dropped = 0

    def arm(self, wanted: bytes) -> None:
        """Lose the answer to the next request that holds these bytes."""
        self._wanted = wanted

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator["DroppingProxy"]:
        """Listen on a free port."""
        async with accepting(self._connected) as port:
            self.address = f"127.0.0.1:{port}"
            yield self

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(*self._target)
        lost = asyncio.Event()
        pumps = [
            asyncio.create_task(self._requests(reader, to_server, lost)),
            asyncio.create_task(_answers(from_server, writer, lost)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            # Before the wait: the end of the test may cancel it.
            to_server.close()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _requests(
        self, reader: asyncio.StreamReader, to_server: asyncio.StreamWriter, lost: asyncio.Event
    ) -> None:
        requests = _Requests()
        while data := await reader.read(CHUNK):
            messages = requests.feed(data)
            hit = self._wanted is not None and any(self._wanted in one for one in messages)
            if hit:
                self._wanted = None
                self.dropped += 1
                lost.set()
            to_server.write(data)
            await to_server.drain()
            if hit:
                await asyncio.sleep(LOSS_S)
                return


class _Requests:
    """The gRPC messages in what one side of an HTTP/2 connection says."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._streams: dict[int, bytearray] = {}
        self._to_skip = PREFACE

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes and return the messages that became whole, decompressed."""
        skipped = min(self._to_skip, len(data))
        self._to_skip -= skipped
        self._bytes += data[skipped:]
        found: list[bytes] = []
        while len(self._bytes) >= FRAME_HEAD:
            end = FRAME_HEAD + int.from_bytes(self._bytes[:3])
            if len(self._bytes) < end:
                break
            if self._bytes[3] == 0:  # a DATA frame; gRPC clients do not pad them
                stream = self._streams.setdefault(int.from_bytes(self._bytes[5:9]), bytearray())
                stream += self._bytes[FRAME_HEAD:end]
                found += _messages(stream)
            del self._bytes[:end]
        return found


def _messages(stream: bytearray) -> list[bytes]:
    found: list[bytes] = []
    while len(stream) >= MESSAGE_HEAD:
        end = MESSAGE_HEAD + int.from_bytes(stream[1:MESSAGE_HEAD])
        if len(stream) < end:
            break
        body = bytes(stream[MESSAGE_HEAD:end])
        found.append(gzip.decompress(body) if stream[0] else body)
        del stream[:end]
    return found


async def _answers(
    from_server: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: asyncio.Event
) -> None:
    while data := await from_server.read(CHUNK):
        if not lost.is_set():
            writer.write(data)
            await writer.drain()
