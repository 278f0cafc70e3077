"""A real MCP server over HTTP: calls, headers by reference, redirects, a server that is away."""

import asyncio
import socket
import sys
import threading
from contextlib import AsyncExitStack, asynccontextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx2
import pytest
from waiting import eventually

from perdure.adapters.mcp import connections
from perdure.adapters.mcp.connections import Tail, Target
from perdure.domain.foundation.errors import InvalidInput


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def answers(port):
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@asynccontextmanager
async def served(probe, port):
    """The probe server over HTTP."""
    process = await asyncio.create_subprocess_exec(
        *probe.command("--http", str(port)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await eventually(lambda: answers(port))
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()


@pytest.mark.long
async def test_calls_and_headers_reach_a_remote_server_which_may_come_back(probe):
    port = free_port()
    async with served(probe, port) as url:
        servers = probe.servers(url=url, headers_from={"X-Probe": "PROBE_HEADER"})
        grant = await probe.pinned(servers)
        assert (await probe.call(servers, grant, "shout", text="hey")).text == "HEY"
        assert (await probe.call(servers, grant, "header")).text == "for you"
        before = (await probe.call(servers, grant, "pid")).text
    gone = await probe.call(servers, grant, "shout", text="hey")
    assert (gone.outcome, gone.code) == ("error", "server_unavailable")
    async with served(probe, port):
        again = await probe.call(servers, grant, "pid")
        assert (again.outcome, again.text != before) == ("ok", True)


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("tools/call", None),
        ("tools/list", connections.READ_TIMEOUT_S),
        ("notifications/cancelled", connections.READ_TIMEOUT_S),
    ],
)
async def test_only_its_own_time_limit_ends_a_call(message, limit, monkeypatch):
    limits, clients = [], []

    async def answer(request):
        limits.append(request.extensions["timeout"]["read"])
        return httpx2.Response(202)

    monkeypatch.setattr(httpx2, "AsyncHTTPTransport", lambda **_: httpx2.MockTransport(answer))
    monkeypatch.setattr(
        connections, "streamable_http_client", lambda _, http_client: clients.append(http_client)
    )
    target = Target(name="far", url="http://127.0.0.1/mcp")
    async with AsyncExitStack() as stack:
        await connections.transport_to(target, stack, Tail(sys.stderr))
        await clients[0].post(target.url, json={"jsonrpc": "2.0", "method": message})
    assert limits == [limit]


async def test_a_server_that_is_away_is_named_when_a_run_opens(probe):
    servers = probe.servers(url=f"http://127.0.0.1:{free_port()}/mcp")
    with pytest.raises(InvalidInput, match="MCP server 'probe' does not work on this worker"):
        await probe.pinned(servers)


async def test_a_redirect_to_another_place_is_not_followed(probe):
    asked = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(self.path)
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(307)
            self.send_header("location", f"http://localhost:{target.server_port}/inside")
            self.end_headers()

        def log_message(self, *_):
            """Say nothing."""

    entrance, target = (HTTPServer(("127.0.0.1", 0), Elsewhere) for _ in range(2))
    threads = [threading.Thread(target=one.serve_forever) for one in (entrance, target)]
    for thread in threads:
        thread.start()
    try:
        servers = probe.servers(url=f"http://127.0.0.1:{entrance.server_port}/mcp")
        with pytest.raises(InvalidInput, match="does not work on this worker"):
            await probe.pinned(servers)
    finally:
        for one in (entrance, target):
            one.shutdown()
            one.server_close()
        for thread in threads:
            thread.join()
    assert asked
    assert set(asked) == {"/mcp"}, "nobody went inside"
