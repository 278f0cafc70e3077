"""Requests that no client library sends: half a head, lengths said in two ways, a slow drip."""

import asyncio
import json

import httpx2
import pytest
from half_sent import HALF, dripped, exchange, half_sent
from installation import Installation
from rest import Rest, served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from perdure.interfaces.rest import connections, request_limits
from perdure.interfaces.rest.settings import ApiRules
from perdure.interfaces.web import entrance

LOOPS = "/api/v1/loops"


def _raw(token: str, *headers: str) -> bytes:
    lines = ("POST /api/v1/loops HTTP/1.1", "host: 127.0.0.1", f"authorization: Bearer {token}")
    said = (*lines, "content-type: application/json", *headers, "", "")
    return "\r\n".join(said).encode()


async def test_a_length_said_in_two_ways_passes_no_limit(unmanned: Installation) -> None:
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    async with served(unmanned, ApiRules(body_bytes=4_096)) as door:
        port, token = int(door.url.rpartition(":")[2]), await door.token("admin")
        both = _raw(token, "content-length: 5", "transfer-encoding: chunked")
        said = await exchange(port, both + b"0\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 400 ") and b"both content-length" in said
        chunked = _raw(token, "transfer-encoding: chunked", "connection: close")
        for head, refused in ((both, b"HTTP/1.1 400 "), (chunked, b"HTTP/1.1 413 ")):
            said = await exchange(port, head + chunk * 64)
            # The socket may be reset before the answer is read: more was sent than was taken.
            assert said == b"" or said.startswith(refused)
        assert (await door.client.get(LOOPS)).status_code == 200


async def test_half_requests_shut_nobody_out(door: Rest) -> None:
    port = int(door.url.rpartition(":")[2])
    unasked = b"POST /api/v1/loops HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\n"
    async with half_sent(port, 600), half_sent(port, 300, unasked):
        async with door.caller("read") as caller:
            assert (await caller.get(LOOPS)).status_code == 200
        assert (await door.client.get(LOOPS)).status_code == 200


async def test_bodies_that_do_not_come_shut_nobody_out(door: Rest) -> None:
    """The page reads forms of people whom it does not know yet."""
    port = int(door.url.rpartition(":")[2])
    form = b"POST /sign-in HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\na="
    async with half_sent(port, connections.CONNECTIONS + 100, form):
        async with door.caller() as nobody:
            assert (await nobody.get("/healthz")).status_code == 200
        assert (await door.client.get(LOOPS)).status_code == 200


async def test_a_form_that_does_not_come_is_refused(
    door: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entrance, "WITHIN_S", 0.2)
    port = int(door.url.rpartition(":")[2])
    for path in (b"/sign-in", b"/runs/x/pause"):
        head = b"POST " + path + b" HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n"
        kind = b"content-type: application/x-www-form-urlencoded\r\n\r\na="
        said = await exchange(port, head + kind)
        assert said.startswith(b"HTTP/1.1 408 "), path
        assert b"did not come within" in said


async def test_who_leaves_in_the_middle_of_a_form_writes_no_traceback(
    door: Rest, caplog: pytest.LogCaptureFixture
) -> None:
    port = int(door.url.rpartition(":")[2])
    head = b"POST /sign-in HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n"
    async with half_sent(port, 3, head + b"content-type: text/plain\r\n\r\na="):
        assert (await door.client.get(LOOPS)).status_code == 200
    assert (await door.client.get(LOOPS)).status_code == 200
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST /sign-in HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: x\r\n\r\n",
        b"POST /sign-in HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nZ\r\n",
    ],
    ids=["TLS", "no host", "length", "chunk"],
)
async def test_what_is_no_request_is_a_problem_document(door: Rest, said: bytes) -> None:
    port = int(door.url.rpartition(":")[2])
    head, _, body = (await exchange(port, said)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 4")
    if b"problem+json" in head:
        assert json.loads(body)["code"] == "bad_request"
    else:
        assert head.startswith(b"HTTP/1.1 411 "), "the page refuses the chunked form before"


async def test_a_refused_preflight_is_a_problem_document(unmanned: Installation) -> None:
    async with served(unmanned, ApiRules(origins=("https://page.example",))) as door:
        asked = {"access-control-request-method": "POST", "origin": "https://page.example"}
        taken = await door.client.options(LOOPS, headers=asked)
        assert (taken.status_code, taken.headers["access-control-allow-origin"]) == (
            200,
            "https://page.example",
        )
        for change, told in (
            ({"origin": "https://evil.example"}, "origin"),
            ({"access-control-request-headers": "x-own"}, "headers"),
            ({"access-control-request-method": "TRACE"}, "method"),
        ):
            refused = await door.client.options(LOOPS, headers=asked | change)
            assert refused.status_code == 400
            assert refused.headers["content-type"] == "application/problem+json"
            assert refused.json()["detail"] == f"Disallowed CORS {told}."
            allowed = "access-control-allow-origin" in refused.headers
            assert allowed == (told != "origin")


async def test_a_request_that_does_not_come_is_dropped(
    door: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_WITHIN_S", 0.2)
    monkeypatch.setattr(request_limits, "WITHIN_S", 0.2)
    port, token = int(door.url.rpartition(":")[2]), await door.token("admin")
    assert await exchange(port, b"GET / HTTP/1.1\r\nhost: 127") == b""
    said = await exchange(port, _raw(token, "content-length: 9") + b"{")
    assert said.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("said", [b"", HALF, b"GET / HTTP/1.1\r\n"], ids=["line", "value", "name"])
async def test_a_dripped_head_is_listened_to_for_so_long(
    door: Rest, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    """Each byte comes in time, the head never; a slower machine only makes it end later."""
    monkeypatch.setattr(connections, "HEAD_WITHIN_S", 0.3)
    port = int(door.url.rpartition(":")[2])
    assert await dripped(port, said, every_s=0.02, at_most_s=60) < 60


async def test_requests_beyond_what_is_answered_at_once_are_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS", 2)
    over = asyncio.Event()

    async def wait(_: Request) -> PlainTextResponse:
        await over.wait()
        return PlainTextResponse("done")

    async def health(_: Request) -> PlainTextResponse:
        return PlainTextResponse("ok")

    routes = [Route("/", wait), Route("/healthz", health), Route("/readyz", health)]
    app = connections.Addressed(Starlette(routes=routes), names=None)
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app), base_url="http://api"
    ) as client:
        held = [asyncio.create_task(client.get("/")) for _ in range(3)]
        await asyncio.sleep(0.05)
        refused = await client.get("/")
        assert refused.status_code == 503
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["code"] == "too_many_connections"
        assert int(refused.headers["retry-after"]) > 0
        for path in ("/healthz", "/readyz"):
            assert (await client.get(path)).status_code == 200, path
        over.set()
        assert [one.status_code for one in await asyncio.gather(*held)] == [200] * 3
        assert (await client.get("/")).status_code == 200
