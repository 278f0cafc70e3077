"""The small HTTP server: plain requests, ambiguous ones, and clients that only hold it open."""

from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest
from half_sent import dripped, exchange, half_sent

from perdure.adapters import http_server
from perdure.adapters.http_server import Connection, HttpServer, Request

NAMES = frozenset({"127.0.0.1", "localhost"})
GET = b"GET /x HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


async def _echo(request: Request, connection: Connection) -> None:
    body = await connection.body(request, at_most=100)
    await connection.answer(HTTPStatus.OK, {"target": request.target, "body": body.decode()})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    door = HttpServer(_echo, names=NAMES)
    yield await door.open("127.0.0.1", 0)
    await door.close()


def _post(*headers: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([b"POST / HTTP/1.1", b"host: localhost:1", *headers, b"", body])


async def test_an_honest_request_is_answered(port: int) -> None:
    assert b'{"target": "/x", "body": ""}' in await exchange(port, GET)
    said = await exchange(port, _post(b"Content-Length: 5", body=b"hello"))
    assert said.startswith(b"HTTP/1.1 200") and b'"body": "hello"' in said


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nhost: evil.example\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: evil.example\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nhost: 127.0.0.1@evil.example\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nhost: localhost.\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n folded: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost : 127.0.0.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx: a\nb: c\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", 400),
        (b"hello\r\n\r\n", 400),
        (GET[:-2] + b"x: " + b"a" * 40_000 + b"\r\n\r\n", 431),
        (_post(b"content-length: 5", b"transfer-encoding: chunked", body=b"0\r\n\r\n"), 411),
        (_post(b"transfer-encoding: chunked", body=b"0\r\n\r\n"), 411),
        (_post(b"content-length: 5", b"content-length: 6", body=b"hello"), 400),
        (_post(b"content-length: +5", body=b"hello"), 400),
        (_post(b"content-length: -1"), 400),
        (_post(b"content-length: 101"), 413),
        (_post(b"content-length: 999999999999999999999"), 400),
    ],
)
async def test_what_is_foreign_or_means_two_things_is_refused(
    port: int, said: bytes, status: int
) -> None:
    assert (await exchange(port, said)).startswith(f"HTTP/1.1 {status} ".encode())


async def test_who_holds_it_open_shuts_nobody_out(port: int) -> None:
    async with half_sent(port, 600):
        assert b"200 OK" in await exchange(port, GET)


async def test_half_a_request_is_dropped_in_time(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HEAD_WITHIN_S", 0.2)
    monkeypatch.setattr(http_server, "BODY_WITHIN_S", 0.2)
    assert await exchange(port, GET[:-2]) == b""
    said = await exchange(port, _post(b"content-length: 5", body=b"hel"))
    assert said.startswith(b"HTTP/1.1 408")


async def test_a_dripped_head_is_listened_to_for_so_long(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HEAD_WITHIN_S", 0.3)
    assert await dripped(port, GET[:-2], every_s=0.02, at_most_s=60) < 60
