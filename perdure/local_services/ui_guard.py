"""The proxy in front of the Web UI, which passes on only requests for a known host name.

The Web UI of the embedded server has no login, answers to any `Host`, and hands out the cookie that
changes need. So a web page that points its own host name at loopback (DNS rebinding) could read
runs and approve gates. The server has no setting against that. So it listens where no page can find
it: on a loopback address that is random at each start (on a random port on other systems than
Linux). This guard listens where people expect the Web UI, checks each request, and passes it on.
"""

import asyncio
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple, Self

from perdure.adapters.http_server import (
    BODY_WITHIN_S,
    LOOPBACK,
    Connection,
    HttpServer,
    Refusal,
    Request,
    choose,
)
from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.domain.installation.hosts import LOOPBACK_NAMES, host_of_origin

CHUNK_BYTES = 64 * 1024
TRIES = 5
# Headers of one connection only; ours to the server is closed after each answer.
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "expect"}
)


class Inside(NamedTuple):
    """The address where the server's own Web UI listens."""

    host: str
    port: int


def inside_for(port: int, *, platform: str = sys.platform) -> Inside:
    """A random address for the Web UI behind the guard on `port`.

    Linux routes all of 127.0.0.0/8. Other systems have one loopback address, so there the port is
    random.
    """
    if platform != "linux":
        return Inside(LOOPBACK, choose(avoid=frozenset({port})))
    parts = [secrets.randbelow(254) + 1 for _ in range(3)]
    return Inside(".".join(("127", *map(str, parts))), port)


class UiGuard:
    """Passes allowed requests on, from `open` to `close`.

    Args:
        inside: where the server's own Web UI listens.
        names: host names by which people may call it, besides those of loopback.
    """

    def __init__(self, inside: Inside, *, names: frozenset[str] = frozenset()) -> None:
        self._inside = inside
        self._names = LOOPBACK_NAMES | names
        self._door = HttpServer(self._pass_on, names=self._names)

    @classmethod
    async def before(
        cls, place: Callable[[], tuple[int, Inside]], *, names: frozenset[str]
    ) -> Self:
        """A guard that listens before the Web UI behind it starts.

        Args:
            place: chooses a free port, and the address of the Web UI. It is called again if another
                process takes the port first, as two installations do that start together.
            names: host names by which people may call it, besides those of loopback.

        Raises:
            RuntimeUnavailable: every port was taken before it could listen.
        """
        for _ in range(TRIES - 1):
            with suppress(RuntimeUnavailable):
                return await cls._at(place(), names)
        return await cls._at(place(), names)

    @classmethod
    async def _at(cls, place: tuple[int, Inside], names: frozenset[str]) -> Self:
        port, inside = place
        guard = cls(inside, names=names)
        await guard.open(port)
        return guard

    async def open(self, port: int) -> int:
        """Listen on a port of loopback, and return it.

        Raises:
            RuntimeUnavailable: it is taken.
        """
        try:
            return await self._door.open(LOOPBACK, port)
        except OSError as error:
            raise RuntimeUnavailable(
                f"The Web UI cannot listen on port {port}: {error.strerror}.",
                cure="Name another one with PERDURE_UI_PORT.",
            ) from error

    async def close(self) -> None:
        """Stop listening."""
        await self._door.close()

    async def _pass_on(self, request: Request, connection: Connection) -> None:
        # A page of another origin could send changes, although it cannot read the answers.
        for origin in request.all("origin"):
            if host_of_origin(origin) not in self._names:
                raise Refusal(
                    HTTPStatus.FORBIDDEN,
                    "Pages of other origins are not allowed to use the Web UI.",
                )
        # Before the server is asked: a request whose length is unclear is refused.
        length = request.length
        try:
            reader, writer = await asyncio.open_connection(*self._inside)
        except OSError:
            raise Refusal(
                HTTPStatus.BAD_GATEWAY,
                "The Web UI is starting or not running; try again, or run `perdure doctor`.",
            ) from None
        try:
            writer.write(_head(request))
            await _copy(connection.reader, writer, length)
            while chunk := await reader.read(CHUNK_BYTES):
                connection.writer.write(chunk)
                await connection.writer.drain()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def _head(request: Request) -> bytes:
    kept = [pair for pair in request.headers if pair[0] not in HOP_BY_HOP]
    # Closed after the answer, so that its end is seen without reading lengths and chunks.
    lines = "".join(f"{name}: {value}\r\n" for name, value in [*kept, ("connection", "close")])
    return f"{request.method} {request.target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int) -> None:
    """Pass on a body of a known length, not faster than it is read."""
    left = length
    while left:
        try:
            async with asyncio.timeout(BODY_WITHIN_S):
                chunk = await reader.read(min(left, CHUNK_BYTES))
        except TimeoutError:
            chunk = b""
        if not chunk:
            raise Refusal(
                HTTPStatus.REQUEST_TIMEOUT,
                "The body did not arrive in time; send the request again.",
            )
        left -= len(chunk)
        writer.write(chunk)
        await writer.drain()
    await writer.drain()
