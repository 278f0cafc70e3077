"""The REST application over one connected installation."""

import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.middleware import Middleware

from perdure.domain.run.figures import Figures
from perdure.interfaces.installation_figures import InstallationFigures
from perdure.interfaces.places import hider
from perdure.interfaces.rest import (
    audit,
    costs,
    definitions,
    erasure,
    events,
    experiments,
    forks,
    gates,
    health,
    library,
    model_calls,
    notices,
    plans,
    run_actions,
    run_reads,
    runs,
    schedules,
    stream,
    tasks,
    trees,
)
from perdure.interfaces.rest.auth_middleware import DOCUMENT_PATH, Authentication
from perdure.interfaces.rest.callers import needs, require_within_reach
from perdure.interfaces.rest.error_responses import Refused, document, handle_problems
from perdure.interfaces.rest.events import Feeds, Streams
from perdure.interfaces.rest.idempotent_start import Starts
from perdure.interfaces.rest.openapi import describe
from perdure.interfaces.rest.request_limits import require_known_query
from perdure.interfaces.rest.settings import DOCUMENT, ApiSite

ASKED_HEADERS = (
    "authorization", "content-type", "idempotency-key", "if-match", "if-none-match",
    "last-event-id",
)  # fmt: skip
TOLD_HEADERS = ("allow", "content-disposition", "etag", "location", "retry-after")
_ALLOWED = frozenset({
    "access-control-allow-headers", "access-control-allow-methods", "access-control-allow-origin",
    "access-control-max-age", "vary",
})  # fmt: skip
ROUTERS: tuple[APIRouter, ...] = (
    definitions.router,  # before the routes of one run: their `{run}` would match "definitions" too
    tasks.router,
    plans.router,
    runs.router,
    gates.router,
    run_reads.router,
    model_calls.router,
    trees.router,
    run_actions.router,
    forks.router,
    erasure.router,
    events.router,
    stream.router,
    costs.router,
    library.router,
    experiments.router,
    schedules.router,
    audit.router,
    notices.router,
    health.router,
)


def build_app(site: ApiSite) -> FastAPI:
    """Build the application; its caller closes the installation afterwards."""
    # FastAPI's documentation pages would load scripts from another host, so they are off. The
    # OpenAPI document itself is only data.
    app = FastAPI(
        title="Perdure",
        version=site.version,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # On the application, so that no new route can be without them.
        dependencies=[Depends(require_within_reach), Depends(require_known_query)],
        middleware=_middleware(site),
    )
    app.state.site = site
    app.state.metrics = site.services.metrics(_look_at(site))
    app.state.feeds = Feeds(site.services)
    app.state.starts = Starts(site.services)
    app.state.streams = Streams(site.rules.streams)
    app.state.hide = hider(site.services.endpoints.home)
    handle_problems(app)
    for router in ROUTERS:
        app.include_router(router)
    app.state.paths = _paths()
    app.add_api_route(DOCUMENT_PATH, _document, methods=["GET"], include_in_schema=False)
    return app


def _look_at(site: ApiSite) -> Callable[[], Awaitable[Figures]]:
    """Collects the figures of the installation for its metrics."""
    services = site.services
    figures = InstallationFigures(services.figures(), services.gateway, now=site.now)
    return figures.look


def _paths() -> dict[re.Pattern[str], set[str]]:
    """The methods of every path, in the order in which routes are tried."""
    found: dict[re.Pattern[str], set[str]] = {}
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute):
                found.setdefault(route.path_regex, set()).update(route.methods or ())
    return found


async def _document(request: Request) -> JSONResponse:
    """Serve the OpenAPI document."""
    app: FastAPI = request.app
    site: ApiSite = app.state.site
    if DOCUMENT not in site.rules.public:
        needs("read")(request)
    return JSONResponse(describe(app, site.version))


class _Cors(CORSMiddleware):
    """Refuses a preflight in the form of all errors."""

    def preflight_response(self, request_headers: Headers) -> Response:
        answer = super().preflight_response(request_headers)
        if answer.status_code == HTTPStatus.OK:
            return answer
        told = f"{bytes(answer.body).decode()}."
        cure = "The operator names the origins in PERDURE_API_ORIGINS."
        refused = document(Refused(answer.status_code, "bad_request", told, cure=cure), instance="")
        for name in _ALLOWED.intersection(answer.headers):
            refused.headers[name] = answer.headers[name]
        return refused


def _middleware(site: ApiSite) -> list[Middleware]:
    found = [Middleware(Authentication, site=site)]
    if not site.rules.origins:
        return found
    cors = Middleware(
        _Cors,
        allow_origins=list(site.rules.origins),
        allow_methods=["GET", "POST", "PATCH", "PUT", "DELETE"],
        allow_headers=list(ASKED_HEADERS),
        expose_headers=list(TOLD_HEADERS),
        max_age=600,
    )
    # Outermost: a browser sends a preflight without the token, and a page can read a refusal only
    # with the headers of CORS.
    return [cors, *found]
