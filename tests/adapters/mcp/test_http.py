"""A real MCP server over HTTP: calls, headers by reference, redirects, a server that is away."""

import asyncio
import json
import socket
import sys
import threading
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

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


JSON = "application/json"


def reply(asked, **answer):
    return json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}).encode()


def failed(code, message):
    return lambda asked: (200, JSON, reply(asked, error={"code": code, "message": message}))


@contextmanager
def answering(to_calls):
    """A server that lists one tool, and answers its calls with a status, media type and body."""

    class Server(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            version = asked.get("params", {}).get("protocolVersion")
            facts = {"protocolVersion": version, "serverInfo": {"name": "s", "version": "1"}}
            given = {
                "initialize": {**facts, "capabilities": {"tools": {}}},
                "tools/list": {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]},
            }
            if asked["method"] == "tools/call":
                status, media, body = to_calls(asked)
            elif asked["method"] in given:
                status, media, body = 200, JSON, reply(asked, result=given[asked["method"]])
            elif "id" in asked:
                error = {"code": -32601, "message": "no such method"}
                status, media, body = 200, JSON, reply(asked, error=error)
            else:
                status, media, body = 202, JSON, b""
            self.send_response(status)
            self.send_header("content-type", media)
            self.send_header("content-length", str(len(body.removesuffix(CUT)) + body.count(CUT)))
            self.end_headers()
            self.wfile.write(body.removesuffix(CUT))

        def do_GET(self):
            self.send_error(405)

        def log_message(self, *_):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# At the end of a body that is one byte shorter than its headers say.
CUT = b"\0"
LOST = {
    "bad gateway": lambda _: (502, "text/html", b"<h1>Bad Gateway</h1>"),
    "gateway timeout": lambda _: (504, JSON, b"{}"),
    "cut": lambda asked: (200, JSON, reply(asked, result={"content": []})[:-1] + CUT),
    "half a message": lambda asked: (200, JSON, reply(asked, result={"content": []})[:-1]),
    "too many values": lambda asked: (200, JSON, reply(asked, result={"a": [1] * 600_000})),
    "no message among events": lambda _: (200, "text/event-stream", b"data: {]\n\n"),
    "events without an answer": lambda _: (200, "text/event-stream", b": nothing\n\n"),
    "a page": lambda _: (200, "text/html", b"<h1>Welcome</h1>"),
    "accepted": lambda _: (202, JSON, b""),
}


@pytest.mark.parametrize("access", ["write", "read"])
@pytest.mark.parametrize("case", LOST)
async def test_a_lost_answer_of_a_remote_server_leaves_the_effect_uncertain(probe, case, access):
    with answering(LOST[case]) as url:
        servers = probe.servers(url=url, access=access)
        given = await probe.call(servers, await probe.pinned(servers), "go")
        await servers.aclose()
    uncertain, way = ("effect_uncertain", "Look before") if access == "write" else ("error", "safe")
    assert (given.outcome, given.code) == (uncertain, "server_unavailable")
    assert way in given.text


ITS_OWN = {
    "internal": failed(-32603, "the disk is full"),
    "parse": failed(-32700, "cannot parse what you sent"),
    "request": failed(-32600, "not while it rains"),
    "with a status": lambda asked: (
        400,
        JSON,
        reply(asked, error={"code": -32602, "message": "no such city"}),
    ),
}


@pytest.mark.parametrize("case", ITS_OWN)
async def test_an_error_that_a_remote_server_tells_is_an_error(probe, case):
    with answering(ITS_OWN[case]) as url:
        servers = probe.servers(url=url, access="write")
        given = await probe.call(servers, await probe.pinned(servers), "go")
        await servers.aclose()
    assert (given.outcome, given.code) == ("error", "tool_failed")
