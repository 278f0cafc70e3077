"""A small HTTP/1.1 server for loopback, and free ports for it.

It serves what must run without a web framework: the codec server, and the guard of the Web UI. Each
request is checked before it is answered: its head must arrive in time and be short, its length must
be stated in one way only, and its `Host` must be one of our names. Idle connections cannot exhaust
the server: beyond a number of them, the oldest that has not sent a request is dropped.
"""

import asyncio
import json
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

from perdure.domain.installation.hosts import answers_to

LOOPBACK = "127.0.0.1"
HEAD_BYTES = 32 * 1024
HEAD_WITHIN_S = 10.0
BODY_WITHIN_S = 30.0
WAITING_AT_MOST = 128
_NO_FAMILY = frozenset({97, 99})  # EAFNOSUPPORT, EADDRNOTAVAIL
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_REQUEST = re.compile(rb"([A-Z]{1,20}) ([!-~]{1,8000}) HTTP/1\.1")
_BAD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def is_free(port: int) -> bool:
    """Whether a service could listen on the port now (both loopback families)."""
    return _binds(socket.AF_INET, LOOPBACK, port) and _binds(socket.AF_INET6, "::1", port)


def choose(*candidates: int | None, avoid: frozenset[int] = frozenset()) -> int:
    """The first free candidate, or else a free port that the system picks."""
    for port in candidates:
        if port is not None and port not in avoid and is_free(port):
            return port
    while (port := _any()) in avoid:
        pass
    return port


def _binds(family: socket.AddressFamily, address: str, port: int) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As servers do, so that a port of closed connections counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            # On a host without IPv6 nobody can occupy the port there.
            return family == socket.AF_INET6 and error.errno in _NO_FAMILY
    return True


def _any() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


class Refusal(Exception):
    """A request that is answered with an error status."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request; header names are in lower case, and in their order."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    def all(self, name: str) -> list[str]:
        """The values of a header."""
        return [value for found, value in self.headers if found == name]

    def header(self, name: str) -> str | None:
        """The value of a header that may occur only once.

        Raises:
            Refusal: it occurs more than once.
        """
        found = self.all(name)
        if len(found) > 1:
            raise Refusal(
                HTTPStatus.BAD_REQUEST,
                f"The header {name} is given {len(found)} times; send it once.",
            )
        return found[0] if found else None

    @property
    def length(self) -> int:
        """The length of the body.

        Raises:
            Refusal: it is ambiguous, or stated by `transfer-encoding`.
        """
        given = self.header("content-length")
        if self.header("transfer-encoding") is not None:
            raise Refusal(
                HTTPStatus.LENGTH_REQUIRED,
                "Send a content-length; transfer-encoding is not supported.",
            )
        if given is None:
            return 0
        if not (given.isascii() and given.isdigit() and len(given) < 16):
            raise Refusal(HTTPStatus.BAD_REQUEST, "The content-length is not a number of bytes.")
        return int(given)


@dataclass(frozen=True, slots=True)
class Connection:
    """Both directions of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def body(self, request: Request, *, at_most: int) -> bytes:
        """The whole body.

        Raises:
            Refusal: it is too long, or does not arrive in time.
        """
        if request.length > at_most:
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"The body has {request.length} bytes; send at most {at_most}.",
            )
        try:
            async with asyncio.timeout(BODY_WITHIN_S):
                return await self.reader.readexactly(request.length)
        except (TimeoutError, asyncio.IncompleteReadError):
            raise Refusal(
                HTTPStatus.REQUEST_TIMEOUT,
                "The body did not arrive in time; send the request again.",
            ) from None

    async def answer(
        self, status: HTTPStatus, content: object, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a response with JSON, or without a body for None."""
        body = b"" if content is None else json.dumps(content).encode()
        told = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "connection": "close",
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            **(headers or {}),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\n{lines}\r\n"
        self.writer.write(head.encode("latin-1", "replace") + body)
        await self.writer.drain()


Answer = Callable[[Request, Connection], Awaitable[None]]


class HttpServer:
    """Answers on a port from `open` to `close`.

    Args:
        answer: answers a request; a `Refusal` that it raises becomes the response.
        names: the host names that are answered to.
    """

    def __init__(self, answer: Answer, *, names: frozenset[str]) -> None:
        self._answer = answer
        self._names = names
        self._server: asyncio.Server | None = None
        self._waiting: dict[asyncio.StreamWriter, None] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int) -> int:
        """Listen, and return the port (0 takes a free one).

        Raises:
            OSError: nothing can listen there.
        """
        self._server = await asyncio.start_server(self._take, host, port, limit=HEAD_BYTES)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening, and drop all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        try:
            with suppress(ConnectionError):
                await self._serve(Connection(reader, writer))
        except asyncio.CancelledError:
            pass  # otherwise asyncio would log it as an error of this callback
        finally:
            self._under_way.discard(task)
            self._waiting.pop(writer, None)
            writer.close()

    async def _serve(self, connection: Connection) -> None:
        try:
            request = await self._asked(connection)
            if request is None:
                return
            # A web page that points its own name at loopback must get no answer.
            if not answers_to(request.all("host"), self._names):
                raise Refusal(
                    HTTPStatus.MISDIRECTED_REQUEST,
                    "The host header names another host; use the address that the server was "
                    "started with.",
                )
            await self._answer(request, connection)
        except Refusal as refusal:
            await connection.answer(refusal.status, {"message": str(refusal)})

    async def _asked(self, connection: Connection) -> Request | None:
        """The head of the request; None if none arrived."""
        self._wait_in_line(connection.writer)
        try:
            async with asyncio.timeout(HEAD_WITHIN_S):
                head = await connection.reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            why = "The head of the request is too long."
            raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, why) from None
        except (TimeoutError, asyncio.IncompleteReadError):
            return None
        self._waiting.pop(connection.writer, None)
        return read_head(head)

    def _wait_in_line(self, writer: asyncio.StreamWriter) -> None:
        self._waiting[writer] = None
        if len(self._waiting) > WAITING_AT_MOST:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.transport.abort()


def read_head(head: bytes) -> Request:
    """Parse a head strictly.

    Raises:
        Refusal: it is no head of HTTP/1.1, or is ambiguous.
    """
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _REQUEST.fullmatch(first)
    if found is None:
        raise Refusal(HTTPStatus.BAD_REQUEST, "This is not an HTTP/1.1 request.")
    headers: list[tuple[str, str]] = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not _TOKEN.fullmatch(name) or _BAD_VALUE.search(value):
            raise Refusal(HTTPStatus.BAD_REQUEST, "A header is malformed.")
        headers.append((name.decode("ascii").lower(), value.strip(b" \t").decode("latin-1")))
    method, target = (part.decode("ascii") for part in found.groups())
    return Request(method, target, tuple(headers))
