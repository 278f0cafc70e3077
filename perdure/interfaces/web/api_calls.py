"""The REST API as the views call it: in this process, in the visitor's name."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from math import isfinite
from typing import TypeVar
from urllib.parse import quote

import httpx2
from pydantic import JsonValue, TypeAdapter
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.domain.installation.access import ApiToken
from perdure.interfaces.rest.auth_middleware import CALLER
from perdure.interfaces.rest.paging import LARGEST_PAGE
from perdure.interfaces.rest.schemas import Page

API = "/api/v1"
DEFECT = 500
_ADDRESS = re.compile(r"\b(GET|POST|PATCH|DELETE) /")
_SENDABLE = "Correct that place, and send the form again."
Shape = TypeVar("Shape")
Listed = TypeVar("Listed", bound=Page)


class ApiProblem(Exception):
    """A refusal by the API, in its own words.

    Args:
        status: the HTTP status.
        title: its short name (`code` of the problem).
        detail: what was found.
        cure: what to do next.
        problems: one line for each field that is wrong.
    """

    def __init__(
        self, status: int, title: str, detail: str, cure: str = "", problems: tuple[str, ...] = ()
    ) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail, self.cure = status, title, detail, cure
        self.problems = problems


class Api:
    """Calls the API in the name of one visitor.

    Args:
        app: the REST application.
        token: the visitor's; the API enforces its permissions as for any other caller.
    """

    def __init__(self, app: ASGIApp, token: ApiToken) -> None:
        self._client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=admitted(app, token)), base_url="http://page"
        )

    async def get(
        self, path: str, shape: type[Shape], query: Mapping[str, object] | None = None
    ) -> Shape:
        """Get a path below `/api/v1`, validated against the API's own schema.

        Raises:
            ApiProblem: the API refused.
        """
        # A form sends its empty fields too, and the API would take them for values.
        given = {
            name: str(value) for name, value in (query or {}).items() if value not in (None, "")
        }
        return await self._call("GET", path, shape, params=given)

    async def pages(self, path: str, shape: type[Listed]) -> list[Listed]:
        """All pages of a list: the API cuts a list that is read without its cursors.

        Raises:
            ApiProblem: the API refused.
        """
        found = [await self.get(path, shape, {"limit": LARGEST_PAGE})]
        while (cursor := found[-1].cursor) is not None:
            found.append(await self.get(path, shape, {"limit": LARGEST_PAGE, "cursor": cursor}))
        return found

    async def content(self, path: str, *, keep: Collection[str], accept: str = "*/*") -> Response:
        """Get content that is not JSON, with the response headers named in `keep`.

        Raises:
            ApiProblem: the API refused.
        """
        headers = {"accept": accept}
        response = await self._client.send(
            self._client.build_request("GET", API + path, headers=headers)
        )
        if response.is_error:
            raise problem_of(response.status_code, response.content)
        headers = {name: response.headers[name] for name in keep if name in response.headers}
        return Response(response.content, headers=headers)

    async def post(
        self,
        path: str,
        shape: type[Shape],
        body: JsonValue = None,
        headers: Mapping[str, str] | None = None,
    ) -> Shape:
        """Send a body to a path and return the answer.

        Raises:
            ApiProblem: the API refused.
        """
        return await self._call("POST", path, shape, json=body, headers=headers)

    async def patch(self, path: str, shape: type[Shape], body: JsonValue) -> Shape:
        """Send an edit; otherwise like `post`."""
        return await self._call("PATCH", path, shape, json=body)

    async def delete(self, path: str) -> None:
        """Delete what is at a path; raises `ApiProblem` if the API refuses."""
        response = await self._client.send(self._client.build_request("DELETE", API + path))
        if response.is_error:
            raise problem_of(response.status_code, response.content)

    async def _call(
        self,
        method: str,
        path: str,
        shape: type[Shape],
        *,
        params: Mapping[str, str] | None = None,
        json: JsonValue = None,
        headers: Mapping[str, str] | None = None,
    ) -> Shape:
        try:
            request = self._client.build_request(
                method, API + path, params=params, json=json, headers=headers
            )
        except ValueError:  # people write `inf`, `1e999` or half a character into fields
            told, where = "The form is not valid.", tuple(_unsendable(json, ""))
            raise ApiProblem(422, "invalid_input", told, _SENDABLE, where) from None
        response = await self._client.send(request)
        if response.is_error:
            raise problem_of(response.status_code, response.content)
        return TypeAdapter(shape).validate_json(response.content)


def admitted(app: ASGIApp, token: ApiToken) -> ASGIApp:
    """The REST application for a visitor whose session was already checked.

    The token goes into the scope directly, and the API does not authenticate the request again.
    """

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        status: list[int] = []

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])
            await send(message)

        try:
            await app({**scope, CALLER: token}, receive, sending)
        except Exception:
            # Raised again for the server once it is logged and answered: the answer is a refusal
            # as any other. An answer that broke in the middle would pass for a whole one.
            if status != [DEFECT]:
                raise

    return call


def at(*parts: str) -> str:
    """A path from its parts, each quoted so that an id with a slash stays one part.

    Raises:
        ApiProblem: a part is `.` or `..`, which leads elsewhere however it is quoted.
    """
    if not {".", ".."}.isdisjoint(parts):
        raise ApiProblem(404, "not_found", "There is no such page.")
    return "/" + "/".join(quote(part, safe="") for part in parts)


def problem_of(status: int, body: bytes) -> ApiProblem:
    """The refusal in an answer of the API."""
    try:
        found = json.loads(body)
    except ValueError:
        found = {}
    errors = found.get("errors") or ()
    return ApiProblem(
        status,
        str(found.get("code", "error")),
        str(found.get("detail", "The API did not answer as expected.")),
        _for_people(str(found.get("cure") or "")),
        tuple(f"{one.get('path', '')}: {one.get('message', '')}" for one in errors),
    )


def _unsendable(value: JsonValue, path: str) -> Iterator[str]:
    """The places of values that no JSON can carry, each with what was found."""
    match value:
        case dict():
            for name, inner in value.items():
                yield from _unsendable(inner, f"{path}.{name}" if path else name)
        case list():
            for index, inner in enumerate(value):
                yield from _unsendable(inner, f"{path}[{index}]")
        case float() if not isfinite(value):
            yield f"{path}: found {value}; allowed: a finite number"
        case str() if value.encode(errors="ignore").decode() != value:
            yield f"{path}: found half a character (a surrogate); allowed: whole ones"
        case _:
            pass


def _for_people(cure: str) -> str:
    """A cure without what only programs can follow: addresses of the API."""
    return "" if _ADDRESS.search(cure) else cure
