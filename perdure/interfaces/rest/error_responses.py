"""Every error as a problem document (RFC 9457), with a hint for HTTP callers.

Errors come from code that all interfaces share, and their hints name shell commands. Commands that
an HTTP caller can replace by a request are shown as requests; those for the operator stay commands.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import get_args

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import (
    InvalidInput,
    NotAllowed,
    NotFound,
    PerdureError,
    ServiceUnavailable,
    StoreError,
    Unreadable,
)
from perdure.domain.foundation.plain_text import clipped
from perdure.domain.foundation.problems import (
    FOUND_CHARACTERS,
    allowed_in_words,
    format_value,
    nearest_name,
    path_of,
)
from perdure.domain.llm.errors import ModelError
from perdure.event_log import get_logger
from perdure.interfaces.places import Hide

LOOPS = "/api/v1/loops"
EXPERIMENTS = "/api/v1/experiments"
SCHEDULES = "/api/v1/schedules"
DESCRIBED = "GET /api/v1/openapi.json"
_RUN = r"(?:--run )?(?P<run>[A-Za-z0-9._:@+=-]*[A-Za-z0-9])"
# Shell commands in errors, with the matching requests; longer forms come first.
_REQUESTS: tuple[tuple[str, str], ...] = (
    (rf"perdure fork {_RUN} --from-iteration N", f"POST {LOOPS}, as a separate run"),
    (rf"perdure fork {_RUN}", f"POST {LOOPS}, as a separate run"),
    (rf"perdure result {_RUN}", f"GET {LOOPS}/{{run}}/result"),
    (rf"perdure watch {_RUN}", f"GET {LOOPS}/{{run}}/events"),
    (rf"perdure status {_RUN}", f"GET {LOOPS}/{{run}}"),
    (rf"perdure history {_RUN}", f"GET {LOOPS}/{{run}}/history"),
    (rf"perdure transcript {_RUN}", f"GET {LOOPS}/{{run}}/transcript"),
    (rf"perdure retry {_RUN}", f"POST {LOOPS}/{{run}}/retry"),
    (rf"perdure stop {_RUN}", f"POST {LOOPS}/{{run}}/stop"),
    (rf"perdure resume {_RUN}", f"POST {LOOPS}/{{run}}/resume"),
    (rf"perdure delete {_RUN}", f"DELETE {LOOPS}/{{run}}"),
    (r"perdure experiment list", f"GET {EXPERIMENTS}"),
    (rf"perdure experiment report {_RUN}", f"GET {EXPERIMENTS}/{{run}}/report"),
    (rf"perdure experiment resume {_RUN}", f"POST {EXPERIMENTS}/{{run}}/resume"),
    (rf"perdure experiment stop {_RUN}", f"POST {EXPERIMENTS}/{{run}}/stop"),
    (rf"perdure experiment extend {_RUN} FILE", f"POST {EXPERIMENTS}/{{run}}/inputs"),
    (rf"perdure experiment delete {_RUN}", f"DELETE {EXPERIMENTS}/{{run}}"),
    (r"perdure schedule list", f"GET {SCHEDULES}"),
    (rf"perdure schedule delete {_RUN}", f"DELETE {SCHEDULES}/{{run}}"),
    # Bounded: a text that repeats the beginning would otherwise be read anew from each of them.
    (r"perdure schedule create [^`]{0,400}--replace", f"POST {SCHEDULES} with replace true"),
    (r"perdure schedule create [^`]*", f"POST {SCHEDULES}"),
    (r'perdure loops start (?P<name>[\w-]+) "[^"]*"', f"POST {LOOPS} with kind roles"),
    (r'perdure run "[^"]*"', f"POST {LOOPS}"),
    (r"perdure run", f"POST {LOOPS}"),
    (r'perdure new(?: "[^"]*")?', f"POST {LOOPS}"),
    (r"perdure list", f"GET {LOOPS}"),
    (r"perdure gates", "GET /api/v1/gates"),
    (r"perdure answer", f"POST {LOOPS}/RUN/gates/GATE/answer"),
    (r"perdure add", f"POST {LOOPS}/RUN/input"),
    (r"perdure definitions", f"GET {LOOPS}/definitions"),
    (r"perdure schema(?: KIND| loop-definition)?", DESCRIBED),
    # Only the operator can list these, so there is no request for them.
    (r"perdure (?:sessions|projects)", "the operator's list"),
)
_COMMANDS = tuple(
    (re.compile(rf"(?P<tick>`?){pattern}(?(tick)`?)(?![\w-])"), request)
    for pattern, request in _REQUESTS
)
_BY_STATUS: Mapping[int, str] = {
    400: f"Send it as {DESCRIBED} describes it.",
    401: "Send `authorization: Bearer TOKEN`.",
    404: f"{DESCRIBED} names every path.",
    405: "Use a method that the header `allow` names.",
    406: "Ask for application/json.",
    409: f"Look at it first: GET {LOOPS}/ID shows what a run allows.",
    413: "Send less.",
    415: "Send `content-type: application/json`.",
    422: f"Correct it and send it again; {DESCRIBED} describes every field.",
    429: "Wait for as long as the header `retry-after` says.",
    503: "Try again in a few seconds; the operator reads `perdure doctor` and `perdure logs`.",
}


def over_http(words: str) -> str:
    """The same text with requests in place of commands."""
    for command, request in _COMMANDS:
        words = command.sub(lambda found, request=request: _request(request, found), words)
    return words


def cure_of(status: int, cure: str) -> str:
    """The hint of an error; without one, the hint for its status."""
    return over_http(cure) or _BY_STATUS.get(status, "Ask the operator to read `perdure logs api`.")


def _request(request: str, found: "re.Match[str]") -> str:
    told = request.format(run=found.groupdict().get("run") or "ID")
    return f"`{told}`" if found["tick"] else told


MEDIA_TYPE = "application/problem+json"
TYPE = "urn:perdure:problem:"
RETRY_AFTER_S = 5
# Callers choose the texts and the number of their defects, and all other requests wait meanwhile.
DEFECTS_TOLD = 50
TEXT_CHARACTERS = 4_000
_log = get_logger(__name__)

_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    409: "conflict",
    413: "body_too_large",
    415: "unsupported_media_type",
    422: "invalid_input",
    429: "too_many_requests",
    500: "internal",
    503: "service_unavailable",
}


class Defect(FrozenModel):
    """One thing that is wrong with a request, and where."""

    path: str
    message: str


class Problem(FrozenModel):
    """A problem document: `code` is stable, `detail` and `cure` are for people."""

    type: str = Field(examples=[f"{TYPE}not_found"])
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str
    instance: str
    code: str = Field(examples=["not_found"])
    cure: str = Field(description="What to do next; never empty.")
    state: str | None = None
    errors: tuple[Defect, ...] = ()


class Refused(HTTPException):
    """A request refused by the interface itself, before it reaches a run.

    Args:
        status: of HTTP.
        code: stable.
        detail: what happened, with the value found.
        cure: what to do next.
        errors: what is wrong, field by field.
        headers: of the response.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        cure: str = "",
        errors: Iterable[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.code = code
        self.cure = cure
        self.errors = tuple(Defect(path=path, message=words) for path, words in errors)


class WrongState(NotAllowed):
    """A verb that the run's state forbids; `state` names that state."""

    def __init__(self, message: str, *, cure: str = "", state: str | None = None) -> None:
        super().__init__(message, cure=cure)
        self.state = state


def invalid(path: str, message: str, *, cure: str = "") -> Refused:
    """A refusal for one invalid field of a request."""
    errors = [(path, message)]
    return Refused(422, "invalid_input", f"{path}: {message}", cure=cure, errors=errors)


def unknown(what: str, name: str, names: Sequence[str]) -> str:
    """The message for an unknown name, worded as for specifications."""
    allowed_here = f"one of {', '.join(names)}" if names else "none"
    near = nearest_name(name, names)
    hint = f". Did you mean {near}?" if near else ""
    return f"found the {what} {clipped(name, FOUND_CHARACTERS)}; allowed: {allowed_here}{hint}"


def as_it_is(text: str) -> str:
    """Return the text unchanged: the default for `hide`."""
    return text


def document(
    refused: Refused, *, instance: str, state: str | None = None, hide: Hide = as_it_is
) -> JSONResponse:
    """The response for a refusal; `hide` removes paths of this host from its text.

    Of many defects it lists the first ones, and says how many more there are.
    """

    def told(words: str) -> str:
        # Cut first: callers choose how long a text is, and each pattern below reads all of it.
        return hide(over_http(clipped(words, TEXT_CHARACTERS)))

    problem = Problem(
        type=f"{TYPE}{refused.code}",
        title=HTTPStatus(refused.status_code).phrase,
        status=refused.status_code,
        detail=told(refused.detail) + _and_more(len(refused.errors)),
        instance=instance,
        code=refused.code,
        cure=hide(cure_of(refused.status_code, refused.cure)),
        state=state,
        errors=tuple(
            Defect(path=defect.path, message=told(defect.message))
            for defect in refused.errors[:DEFECTS_TOLD]
        ),
    )
    return JSONResponse(
        problem.model_dump(mode="json"),
        status_code=refused.status_code,
        headers=refused.headers,
        media_type=MEDIA_TYPE,
    )


def _and_more(defects: int) -> str:
    return f" And {defects - DEFECTS_TOLD} more." if defects > DEFECTS_TOLD else ""


def as_refusal(error: PerdureError) -> Refused:
    """One of our errors as a refusal with its HTTP status."""
    status, headers = _status(error)
    errors = error.problems if isinstance(error, InvalidInput) else ()
    return Refused(
        status, error.code, error.message, cure=error.cure, errors=errors, headers=headers
    )


def handle_problems(app: FastAPI) -> None:
    app.add_exception_handler(Refused, _of_refusal)
    app.add_exception_handler(PerdureError, _of_our_tree)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(HTTPException, _of_framework)
    app.add_exception_handler(Exception, _of_defect)


def _status(error: PerdureError) -> tuple[int, dict[str, str]]:
    match error:
        case InvalidInput():
            return 422, {}
        case NotFound():
            return 404, {}
        case NotAllowed():
            return 409, {}
        # Before `StoreError`, which it is too.
        case Unreadable():
            return 500, {}  # no retry helps
        case ServiceUnavailable() | StoreError():
            return 503, {"retry-after": str(RETRY_AFTER_S)}
        case ModelError():
            return 422, {}
        case _:
            return 500, {}


async def _of_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return _answer(request, error)


async def _of_our_tree(request: Request, error: Exception) -> Response:
    assert isinstance(error, PerdureError)
    if type(error) is PerdureError:
        return await _of_defect(request, error)
    state = error.state if isinstance(error, WrongState) else None
    return _answer(request, as_refusal(error), state=state)


async def _of_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    details = error.errors()
    errors = [
        (
            _place(detail["loc"]),
            _words(str(detail["loc"][-1]), detail, _known_fields(request, detail["loc"][1:-1])),
        )
        for detail in details[:DEFECTS_TOLD]
    ]
    listed = "; ".join(f"{path}: {words}" for path, words in errors)
    # The sentence is cut more: `errors` has the others.
    told = f"{listed[:2_000]}{_and_more(len(details))}"
    return _answer(request, Refused(422, "invalid_input", told, errors=errors))


async def _of_framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "refused")
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # The framework lists the methods of one route only, but several routes may share a path.
        headers["allow"] = ", ".join(_methods(request))
    told = f"{request.method} {request.url.path[:200]}: {error.detail}."
    return _answer(request, Refused(error.status_code, code, told, headers=headers))


def _answer(request: Request, refused: Refused, *, state: str | None = None) -> JSONResponse:
    hide: Hide = request.app.state.hide
    return document(refused, instance=request.url.path, state=state, hide=hide)


def _methods(request: Request) -> list[str]:
    paths: Mapping[re.Pattern[str], set[str]] = request.app.state.paths
    found = (methods for path, methods in paths.items() if path.fullmatch(request.url.path))
    return sorted(next(found, set[str]()))


async def _of_defect(request: Request, error: Exception) -> Response:
    """An unexpected error: logged in full, with no details for the caller."""
    _log.error("request_failed", path=request.url.path, method=request.method, exc_info=error)
    told = "Something failed inside. Its cause is in the log of the API."
    return _answer(request, Refused(500, "internal", told, cure="Read `perdure logs api`."))


def _place(steps: tuple[str | int, ...]) -> str:
    """`("body", "budget", "tokens")` becomes `budget.tokens`; `query` and the like stay."""
    root, *rest = steps or ("request",)
    if root == "body":
        return path_of("", [step for step in rest if not isinstance(step, str) or step]) or "body"
    return path_of(str(root), rest)


def _known_fields(request: Request, steps: Sequence[str | int]) -> list[str]:
    """The fields at a place in the route's body: those of the block that an unknown one is in."""
    body = getattr(request.scope.get("route"), "body_field", None)
    models = _models_in(body.field_info.annotation if body is not None else None)
    for step in steps:
        inner = [model.model_fields[step] for model in models if step in model.model_fields]
        models = [found for field in inner for found in _models_in(field.annotation)] or models
    return sorted({name for model in models for name in model.model_fields})


def _models_in(annotation: object) -> list[type[BaseModel]]:
    kinds = get_args(annotation) or (annotation,)
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _words(name: str, detail: Mapping[str, object], names: Sequence[str]) -> str:
    """What is wrong, without names of our classes or the library's own wording."""
    if detail["type"] in {"missing", "union_tag_not_found"}:
        return f"found nothing; allowed: {allowed_in_words(detail)}"
    if detail["type"] == "extra_forbidden":
        return unknown("field", name, names)
    return f"found {format_value(detail.get('input'))}; allowed: {allowed_in_words(detail)}"
