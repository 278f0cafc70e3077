"""Reads JSON bodies with limits on size, time and nesting, and refuses text that no store keeps."""

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from typing import Annotated

from fastapi import Body, Request, Response
from fastapi.dependencies.models import Dependant as Needs  # codespell:ignore dependant
from fastapi.routing import APIRoute
from pydantic import JsonValue
from starlette.types import Message, Receive

from perdure.domain.foundation.json_extraction import NestedTooDeep, RefusedJson, read_json
from perdure.interfaces.rest.callers import site_of
from perdure.interfaces.rest.error_responses import Refused, invalid, unknown

DEPTH = 32
VALUES = 50_000
WITHIN_S = 30.0
_LONE = re.compile("[\ud800-\udfff]")
NOTHING = (b"", b"{}")
JSON_TYPE = re.compile(r"application/(?:[^/\s]+\+)?json")  # what the framework parses
PLAIN = "identity"
Fields = Annotated[dict[str, JsonValue], Body()]


class BoundedRequest(Request):
    """A request whose JSON is read with limits."""

    async def json(self) -> object:
        """Read the body as data; raises `Refused`."""
        return parsed(await self.body())

    async def wait_for_body(self) -> None:
        """Wait for the body; a client that sends it too slowly is refused."""
        try:
            async with asyncio.timeout(WITHIN_S):
                await self.body()
        except TimeoutError:
            raise Refused(
                408,
                "request_timeout",
                f"The body did not come within {WITHIN_S:g} s.",
                cure="Send the request again.",
                headers={"connection": "close"},
            ) from None

    async def require_json(self) -> None:
        """Require a JSON content type and no compression if there is a body."""
        if not await self.body():
            return
        media = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not JSON_TYPE.fullmatch(media):
            raise _unread(
                f"The body is {media[:100] or 'of no type'}; application/json is read.",
                cure="Send `content-type: application/json`.",
            )
        packed = self.headers.get("content-encoding", PLAIN).strip().lower()
        if packed != PLAIN:
            raise _unread(
                f"The body is packed with {packed[:100]}; packed bodies are not read.",
                cure="Send it as it is, without `content-encoding`.",
            )

    async def require_nothing(self) -> None:
        """Refuse a body on a route that takes none: it would change nothing.

        An empty object is allowed, because some clients send one with every POST.
        """
        if (await self.body()).strip() not in NOTHING:
            way = f"{self.method} {self.url.path}"
            raise invalid("body", f"is not allowed: {way} takes none; send it without")


class BoundedRoute(APIRoute):
    """A route that reads its body with limits."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[object, object, Response]]:
        handler = super().get_route_handler()

        async def bounded(request: Request) -> Response:
            limit = site_of(request).rules.body_bytes
            bounded_request = BoundedRequest(request.scope, limited(request, limit))
            if self.body_field is not None:
                await bounded_request.wait_for_body()
                await bounded_request.require_json()
            elif _announces_a_body(request):
                await bounded_request.wait_for_body()
                await bounded_request.require_nothing()
            return await handler(bounded_request)

        return bounded


def _announces_a_body(request: Request) -> bool:
    """Whether the head announces a body; otherwise there is nothing to wait for."""
    length = request.headers.get("content-length", "0")
    return length.strip("0") != "" or "transfer-encoding" in request.headers


def limited(request: Request, limit: int) -> Receive:
    """Read the body, refusing it (413) as soon as it exceeds the limit."""
    told = request.headers.get("content-length", "")
    announced = int(told) if told.isdecimal() else 0
    came = 0

    async def receive() -> Message:
        nonlocal came
        if announced > limit:
            raise _too_large(limit)
        message = await request.receive()
        # The announced length may be wrong, so received bytes are counted as well.
        came += len(message.get("body", b""))
        if came > limit:
            raise _too_large(limit)
        return message

    return receive


def parsed(body: bytes) -> object:
    """Parse a body as JSON.

    Raises:
        Refused: it is not JSON, is nested too deeply, repeats a field, or holds text that cannot be
            stored.
    """
    try:
        value: object = read_json(body)
    except UnicodeDecodeError as error:
        raise invalid("body", f"is not UTF-8 text ({error.reason})") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise invalid("body", f"is not JSON: {error.msg.removesuffix(' at')} at {place}") from error
    except NestedTooDeep as error:
        raise _too_deep() from error
    except RefusedJson as error:
        raise invalid("body", f"cannot be used: {error}") from error
    _require_bounded(value)
    return value


def _require_bounded(value: object) -> None:
    waiting, count = [(value, 1)], 0
    while waiting:
        item, depth = waiting.pop()
        count += 1
        if depth > DEPTH:
            raise _too_deep()
        if count > VALUES:
            raise invalid("body", f"holds more than {VALUES} values")
        match item:
            case dict():
                waiting.extend((inner, depth + 1) for inner in (*item, *item.values()))
            case list():
                waiting.extend((inner, depth + 1) for inner in item)
            case str():
                _require_keepable(item)
            case _:
                pass


def _require_keepable(text: str) -> None:
    if "\x00" in text or _LONE.search(text):
        raise invalid("body", "holds a text with a NUL character or a lone surrogate")


def _unread(found: str, *, cure: str) -> Refused:
    return Refused(415, "unsupported_media_type", found, cure=cure)


def _too_large(limit: int) -> Refused:
    return Refused(
        413,
        "body_too_large",
        f"The body is longer than {limit} bytes.",
        cure="Send less, or let the operator raise PERDURE_API_BODY_BYTES.",
    )


def _too_deep() -> Refused:
    return invalid("body", f"is nested deeper than {DEPTH} levels")


async def require_known_query(request: Request) -> None:
    """Refuse parameters that the route does not have or that come twice.

    Health checks may send anything.
    """
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or not route.path.startswith("/api/"):
        return
    names = sorted(_asked(route.dependant))  # codespell:ignore dependant
    for name in request.query_params:
        if name not in names:
            raise invalid(f"query.{name[:80]}", unknown("parameter", name[:80], names))
        # No parameter of the API takes several values.
        if len(request.query_params.getlist(name)) > 1:
            raise invalid(f"query.{name}", "is given more than once; give one value")


def _asked(needs: Needs) -> set[str]:
    """The parameters of a route and of its dependencies."""
    own = {one.alias for one in needs.query_params}
    return own.union(*(_asked(inner) for inner in needs.dependencies))
