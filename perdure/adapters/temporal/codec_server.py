"""The codec server: decrypts payloads for the Temporal Web UI and the `temporal` command.

It speaks Temporal's remote codec protocol on loopback, and requires its token: as a bearer token,
or as the first part of the path, for a Web UI that knows only a URL. A browser may ask only from
the pages of the Web UI. Only the namespace of this installation is served. All requests are logged.
"""

import asyncio
import hmac
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from http import HTTPStatus

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from temporalio.api.common.v1 import Payload, Payloads

from perdure.adapters.http_server import LOOPBACK, Connection, HttpServer, Refusal, Request
from perdure.adapters.temporal.encryption import EncryptionCodec, place_of
from perdure.domain.foundation.errors import PerdureError, ServiceUnavailable
from perdure.domain.installation.hosts import LOOPBACK_NAMES
from perdure.event_log import get_logger

BODY_BYTES = 16 * 1024 * 1024
ASKED_HEADERS = "content-type, x-namespace, authorization"
HEALTH = "/health"
LOGGED_EVERY_S = 60.0
PLACES_LOGGED = 5
_log = get_logger(__name__)


class CodecServer:
    """Answers on a loopback port while `serve` runs.

    Args:
        keys: 32 secret bytes each, the current one first.
        token: the token that callers must send.
        namespace: the namespace that is served.
        origins: the origins that a browser may ask from, such as `http://127.0.0.1:8233`.
        port: the port; 0 takes a free one.
    """

    def __init__(
        self,
        keys: Sequence[bytes],
        *,
        token: str,
        namespace: str,
        origins: Sequence[str],
        port: int,
    ) -> None:
        # Bound to no workflow: whoever asks does not say which one a payload belongs to.
        codec = EncryptionCodec(keys)
        self._verbs = {"encode": codec.encode, "decode": codec.decode}
        self._token = token.encode()
        self._namespace = namespace
        self._origins = frozenset(_bare(origin) for origin in origins)
        self._port = port
        self._opened = _Opened()

    async def serve(self, on_ready: Callable[[str], None]) -> None:
        """Answer until cancelled; `on_ready` gets the URL.

        Raises:
            ServiceUnavailable: the port is taken.
        """
        interface = HttpServer(self._answer, names=LOOPBACK_NAMES)
        try:
            port = await interface.open(LOOPBACK, self._port)
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else "ports are 0 to 65535"
            raise ServiceUnavailable(
                f"The codec server cannot listen on port {self._port}: {why}.",
                cure="Name another one with --port or PERDURE_CODEC_PORT.",
            ) from error
        try:
            on_ready(f"http://{LOOPBACK}:{port}")
            while True:
                await asyncio.sleep(LOGGED_EVERY_S)
                self._opened.log()
        finally:
            await interface.close()
            self._opened.log()

    async def _answer(self, request: Request, connection: Connection) -> None:
        if request.method == "GET" and request.target == HEALTH:
            await connection.answer(HTTPStatus.OK, {"alive": True})
            return
        origin = self._welcome_origin(request)
        headers = _cors(origin)
        # Before the token is checked: a browser sends none when it asks for permission.
        if request.method == "OPTIONS":
            await connection.answer(HTTPStatus.NO_CONTENT, None, headers)
            return
        try:
            found = await self._converted(request, connection, origin)
        except Refusal as refusal:
            # With CORS headers, or the browser would hide the reason from the Web UI.
            await connection.answer(refusal.status, {"message": str(refusal)}, headers)
        else:
            content = MessageToDict(Payloads(payloads=found))
            await connection.answer(HTTPStatus.OK, content, headers)

    async def _converted(
        self, request: Request, connection: Connection, origin: str | None
    ) -> list[Payload]:
        *path, verb = request.target.strip("/").split("/")
        convert = self._verbs.get(verb)
        if request.method != "POST" or convert is None:
            raise Refusal(HTTPStatus.NOT_FOUND, "Use POST /encode or POST /decode.")
        # Before the body: nobody without the token makes this process read 16 MiB.
        self._check_token(request, path)
        self._check_namespace(request)
        body = await connection.body(request, at_most=BODY_BYTES)
        try:
            asked = list(ParseDict(json.loads(body), Payloads()).payloads)
        except (ValueError, TypeError, ParseError, RecursionError):
            raise Refusal(
                HTTPStatus.BAD_REQUEST, "The body is not Temporal's JSON for payloads."
            ) from None
        places = self._places(asked)
        try:
            found = await convert(asked)
        except PerdureError as error:
            raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        self._opened.note(verb, origin=origin, places=places)
        return found

    def _check_token(self, request: Request, path: Sequence[str]) -> None:
        kind, _, bearer = (request.header("authorization") or "").partition(" ")
        given = [bearer.strip() if kind.lower() == "bearer" else "", *path[:1]]
        # In constant time: else how long a refusal takes would tell how much of it was right.
        if not any(hmac.compare_digest(one.encode(), self._token) for one in given):
            _log.warning("codec_refused", why="no usable token")
            raise Refusal(
                HTTPStatus.UNAUTHORIZED,
                "Send the token of the codec server: `authorization: Bearer TOKEN`, or"
                " /TOKEN/decode. It is in codec.token of the home folder, or PERDURE_CODEC_TOKEN.",
            )

    def _check_namespace(self, request: Request) -> None:
        asked = request.header("x-namespace")
        if asked != self._namespace:
            _log.warning("codec_refused", why="another namespace", namespace=(asked or "")[:100])
            why = f"Only the namespace {self._namespace!r} is opened here (header x-namespace)."
            raise Refusal(HTTPStatus.FORBIDDEN, why)

    def _places(self, payloads: Sequence[Payload]) -> list[str]:
        places = [place for payload in payloads if (place := place_of(payload)) is not None]
        if any(not place.startswith(f"{self._namespace}/") for place in places):
            raise Refusal(
                HTTPStatus.FORBIDDEN,
                "A payload belongs to another namespace; this server decrypts "
                f"{self._namespace!r} only.",
            )
        return places or ["?"]

    def _welcome_origin(self, request: Request) -> str | None:
        """The origin of an allowed page; None for programs, which send none."""
        origin = request.header("origin")
        if origin is None or _bare(origin) in self._origins:
            return origin
        _log.warning("codec_refused", why="a page of another origin", origin=origin[:200])
        raise Refusal(
            HTTPStatus.FORBIDDEN, "Pages of this origin are not allowed; allow it with --origin."
        )


class _Opened:
    """The log of requests, one line a minute, since a page asks several times a second."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}
        self._places: dict[tuple[str, str], Counter[str]] = {}

    def note(self, verb: str, *, origin: str | None, places: Sequence[str]) -> None:
        """Count payloads; the first after a minute without a line is logged at once."""
        asker = (verb, origin or "a program")
        self._places.setdefault(asker, Counter()).update(places)
        # This clock may begin near 0 with the machine: 0 would hold back a first line then.
        if time.monotonic() - self._since.get(asker, -LOGGED_EVERY_S) >= LOGGED_EVERY_S:
            self._log_of(asker)

    def log(self) -> None:
        """Log what was counted and not yet logged."""
        for asker in self._places:
            self._log_of(asker)

    def _log_of(self, asker: tuple[str, str]) -> None:
        counted = self._places[asker]
        if not counted:
            return
        self._since[asker] = time.monotonic()
        verb, origin = asker
        shown = [name for name, _ in counted.most_common(PLACES_LOGGED)]
        _log.info(
            f"payloads_{verb}d", asker=origin, payloads=counted.total(), runs=len(counted), of=shown
        )
        counted.clear()


def _cors(origin: str | None) -> dict[str, str]:
    # A cache must not hand the answer for one origin to a page of another.
    if origin is None:
        return {"vary": "origin"}
    return {
        "vary": "origin",
        "access-control-allow-origin": origin,
        "access-control-allow-credentials": "true",
        "access-control-allow-methods": "POST, OPTIONS",
        "access-control-allow-headers": ASKED_HEADERS,
    }


def _bare(origin: str) -> str:
    return origin.rstrip("/").lower()
