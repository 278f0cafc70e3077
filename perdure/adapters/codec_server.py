"""The codec server: opens sealed payloads for the Temporal Web UI and the `temporal` command.

It speaks Temporal's remote codec protocol on loopback. A browser may ask from the pages of the Web
UI alone; who can reach the port can read what is sealed, so it must not be put on a network.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from temporalio.api.common.v1 import Payloads

from perdure.adapters.codec import SealedPayloads
from perdure.adapters.runtime.ports import LOOPBACK
from perdure.domain.errors import PerdureError, ServiceUnavailable

BODY_BYTES = 16 * 1024 * 1024
ASKED_HEADERS = "content-type, x-namespace, authorization"
HEALTH = "/health"


class CodecServer:
    """Answers on a port of loopback from entering to leaving.

    Args:
        keys: 32 secret bytes each, the current one first.
        origins: the pages that a browser may ask from, such as `http://127.0.0.1:8233`.
        port: where to listen; 0 takes a free one.

    Raises:
        ServiceUnavailable: the port is taken.
    """

    def __init__(self, keys: Sequence[bytes], *, origins: Sequence[str], port: int) -> None:
        handler = partial(_Handler, SealedPayloads(keys), frozenset(_bare(o) for o in origins))
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), handler)
        except OSError as error:
            raise ServiceUnavailable(
                f"The codec server cannot listen on port {port}: {error.strerror}.",
                cure="Name another one with --port or PERDURE_CODEC_PORT.",
            ) from error

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{LOOPBACK}:{self._server.server_port}"

    async def serve(self) -> None:
        """Answer until cancelled."""
        serving = asyncio.create_task(asyncio.to_thread(self._server.serve_forever, 0.1))
        try:
            await asyncio.shield(serving)
        finally:
            self._server.shutdown()
            self._server.server_close()
            await asyncio.wait({serving})


class _Handler(BaseHTTPRequestHandler):
    """One request: `POST …/encode` or `POST …/decode` with payloads as JSON."""

    timeout = 30  # seconds for a request that does not come

    def __init__(
        self, codec: SealedPayloads, origins: frozenset[str], *args: object, **kwargs: object
    ) -> None:
        self._verbs = {"encode": codec.encode, "decode": codec.decode}
        self._origins = origins
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  (as the server hands them)

    def do_GET(self) -> None:
        """Say that it is alive; nothing else can be read this way."""
        alive = self.path == HEALTH
        self._answer(HTTPStatus.OK if alive else HTTPStatus.NOT_FOUND, {"alive": alive})

    def do_OPTIONS(self) -> None:
        """What a browser asks before it posts."""
        self._answer(HTTPStatus.NO_CONTENT if self._is_welcome() else HTTPStatus.FORBIDDEN, None)

    def do_POST(self) -> None:
        """Encode or decode."""
        verb = self._verbs.get(self.path.rpartition("/")[2])
        size = int(self.headers.get("content-length") or 0)
        if not self._is_welcome():
            self._refuse(HTTPStatus.FORBIDDEN, "This page may not ask; name it with --origin.")
        elif verb is None:
            self._refuse(HTTPStatus.NOT_FOUND, "Post to /encode or /decode.")
        elif not 0 < size <= BODY_BYTES:
            self._refuse(HTTPStatus.BAD_REQUEST, f"Send 1 to {BODY_BYTES} bytes.")
        else:
            self._convert(verb, self.rfile.read(size))

    def _convert(self, verb: Callable[..., object], body: bytes) -> None:
        try:
            asked = ParseDict(json.loads(body), Payloads())
            payloads = asyncio.run(verb(asked.payloads))  # type: ignore[arg-type]
        except (ValueError, ParseError):
            self._refuse(HTTPStatus.BAD_REQUEST, "Send payloads as Temporal's JSON.")
        except PerdureError as error:
            self._refuse(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        else:
            self._answer(HTTPStatus.OK, MessageToDict(Payloads(payloads=payloads)))

    def _is_welcome(self) -> bool:
        # Programs send no origin; a page always does, and may belong to anybody.
        origin = self.headers.get("origin")
        return origin is None or _bare(origin) in self._origins

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True
        self._answer(status, {"message": why})

    def _answer(self, status: HTTPStatus, content: object) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        origin = self.headers.get("origin")
        if origin is not None and self._is_welcome():
            self.send_header("access-control-allow-origin", origin)
            self.send_header("access-control-allow-credentials", "true")
            self.send_header("access-control-allow-methods", "POST, OPTIONS")
            self.send_header("access-control-allow-headers", ASKED_HEADERS)
        self.send_header("vary", "origin")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: requests come several times a second while a page is open."""


def _bare(origin: str) -> str:
    return origin.rstrip("/").lower()
