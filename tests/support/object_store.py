"""A real server that speaks S3, and a proxy before it that makes the faults of a network."""

import http.client
import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Literal

import pytest

Fault = Literal[
    "503",  # not done
    "500 afterwards",  # done, and told as if not
    "slow",
    "cut",  # in the middle of a body: of the answer to a read, of a write's own
    "refused",
    "half",  # half of the body is kept, and told as if it were all
    "404",
    "403",
]
Choose = Callable[[str, str], Fault | None]
SLOW_S = 0.3
_HOP = {"connection", "transfer-encoding", "content-length", "date", "server", "expect"}
_numbers = count()


@dataclass
class Faulty:
    """A proxy before the server; `choose` names the fault of each request, by method and path.

    `seen` has every request, with what was done to it.
    """

    port: int
    choose: Choose = lambda _method, _path: None
    seen: list[tuple[str, str, Fault | None]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def only(self, fault: Fault, method: str, *, times: int = 1_000_000) -> None:
        """This fault for so many requests of this method, and no other."""
        left = iter(range(times))

        def chosen(wanted: str, _path: str) -> Fault | None:
            return fault if wanted == method and next(left, None) is not None else None

        self.choose = chosen

    def away(self) -> None:
        """Nobody is let in."""
        self.choose = lambda _method, _path: "refused"

    def back(self) -> None:
        """All is well again."""
        self.choose = lambda _method, _path: None


@pytest.fixture(scope="session")
def s3_server() -> Generator[str]:
    """Host and port of a server of this test process."""
    with s3() as address:
        yield address


@contextmanager
def s3() -> Generator[str]:
    """Host and port of an empty server."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket; obstore's own variables name its server."""
    use_server(monkeypatch, f"http://{s3_server}")
    return made_bucket(s3_server)


@pytest.fixture
def faulty(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Generator[Faulty]:
    """A proxy before the server, which obstore's own variables name."""
    with proxy(s3_server) as made:
        use_server(monkeypatch, made.url)
        yield made


def use_server(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Name the server in the variables of the environment, with credentials."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tests")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "tests")


def made_bucket(server: str) -> str:
    """The name of a new bucket."""
    name = f"bucket-{next(_numbers)}"
    status, _ = ask(server, "PUT", f"/{name}")
    assert status == 200
    return name


def ask(server: str, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """One request to the server itself, as somebody at its console would make it."""
    connection = http.client.HTTPConnection(server, timeout=30)
    signed = "AWS4-HMAC-SHA256 Credential=tests/20260101/us-east-1/s3/aws4_request"
    connection.request(method, path, body=body, headers={"Authorization": signed})
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


@contextmanager
def proxy(server: str) -> Generator[Faulty]:
    """A proxy before the server, on a port of its own."""
    made = Faulty(port=0)

    class Handler(_Handler):
        faulty = made
        upstream = server

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    made.port = listening.server_address[1]
    serving = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
    serving.start()
    try:
        yield made
    finally:
        listening.shutdown()
        listening.server_close()
        serving.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    faulty: Faulty
    upstream: str

    def handle(self) -> None:
        """Until the client leaves, in whatever manner."""
        with suppress(ConnectionError):
            super().handle()

    def _any(self) -> None:
        self.faulty.at_once += 1
        self.faulty.most_at_once = max(self.faulty.most_at_once, self.faulty.at_once)
        try:
            self._take()
        finally:
            self.faulty.at_once -= 1

    def _take(self) -> None:
        fault = self.faulty.choose(self.command, self.path)
        self.faulty.seen.append((self.command, self.path, fault))
        length = int(self.headers.get("content-length", 0))
        if fault == "refused" or (fault == "cut" and length):
            self.rfile.read(length // 2)
            self._hang_up()
            return
        body = self.rfile.read(length)
        if fault in ("503", "404", "403"):
            self._answer(int(fault), [], b"")
            return
        if fault == "slow":
            time.sleep(SLOW_S)
        if fault == "half":
            body = body[: len(body) // 2]
        status, headers, content = self._forward(body)
        if fault == "500 afterwards":
            self._answer(500, [], b"")
        elif fault == "cut":
            self._answer(status, headers, content, cut=True)
        else:
            self._answer(status, headers, content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _any

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.upstream, timeout=60)
        given = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
        connection.request(self.command, self.path, body=body, headers=given)
        answer = connection.getresponse()
        found = answer.status, answer.getheaders(), answer.read()
        connection.close()
        return found

    def _answer(
        self, status: int, headers: list[tuple[str, str]], body: bytes, *, cut: bool = False
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _HOP:
                self.send_header(name, value)
        sizes = [value for name, value in headers if name.lower() == "content-length"]
        told = sizes[0] if self.command == "HEAD" and sizes else str(len(body))
        self.send_header("content-length", told)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self._hang_up()

    def _hang_up(self) -> None:
        self.wfile.flush()
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Tests say what went wrong."""
