"""The pages as an application beside the REST API, and which of the two gets a request."""

import hmac

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.domain.foundation.errors import StoreAway
from perdure.interfaces.rest.settings import ApiSite
from perdure.interfaces.web.api_calls import DEFECT, ApiProblem
from perdure.interfaces.web.compare import routes as compare_routes
from perdure.interfaces.web.costs import routes as costs_routes
from perdure.interfaces.web.entrance import OPEN, READING, Entrance, away_page, guarded
from perdure.interfaces.web.experiments import changing as experiment_changes
from perdure.interfaces.web.experiments import routes as experiment_routes
from perdure.interfaces.web.experiments import starting as experiment_starts
from perdure.interfaces.web.inbox import routes as inbox_routes
from perdure.interfaces.web.library import routes as library_routes
from perdure.interfaces.web.rendering import FILES, asset, rendered
from perdure.interfaces.web.run import calls as call_routes
from perdure.interfaces.web.run import changes as change_routes
from perdure.interfaces.web.run import erase as erase_routes
from perdure.interfaces.web.run import routes as run_routes
from perdure.interfaces.web.run import tool_calls as tool_call_routes
from perdure.interfaces.web.run.watching import Watches
from perdure.interfaces.web.runs import routes as runs_routes
from perdure.interfaces.web.schedules import routes as schedule_routes
from perdure.interfaces.web.shared import Shared
from perdure.interfaces.web.sign_in import provider as provider_routes
from perdure.interfaces.web.sign_in import routes as sign_in_routes
from perdure.interfaces.web.start import routes as start_routes
from perdure.interfaces.web.tree import routes as tree_routes
from perdure.interfaces.web.visit import VISITOR, Fields, Visitor, visit_of

API_PATHS = ("/api/", "/healthz", "/readyz", "/metrics")
# How old a shared glance or count may be.
SHARED_S = 1.0
ROUTERS: tuple[APIRouter, ...] = (
    sign_in_routes.router,
    provider_routes.router,
    inbox_routes.router,
    runs_routes.router,
    start_routes.router,
    call_routes.router,
    tool_call_routes.router,
    compare_routes.router,
    costs_routes.router,
    library_routes.router,
    experiment_starts.router,  # before the routes of one experiment, whose id could be "new"
    experiment_routes.router,
    experiment_changes.router,
    schedule_routes.router,
    erase_routes.router,  # before `/runs/{run}/{verb}`, which would match too
    change_routes.router,  # before `/runs/{run}/{verb}`, which would match too
    tree_routes.router,
    run_routes.router,
)
_FROM_PAGE = "Open the page again, and send it from there."
# By the status: a short name, what was found, and the cure.
_UNKNOWN = {
    404: ("not_found", "There is no such page.", ""),
    405: ("method_not_allowed", "Nothing is to be read here, or no form is taken.", _FROM_PAGE),
}


async def from_own_form(request: Request, fields: Fields) -> None:
    """Refuse a form that no page of this session has made (CSRF)."""
    if request.method in READING or request.url.path.startswith(OPEN):
        return
    visitor: Visitor = request.scope[VISITOR]
    # As bytes: of texts it takes ASCII alone, and anybody may send another one.
    given = fields.get("form_key", "").encode(errors="replace")
    if not hmac.compare_digest(given, visitor.form_key.encode()):
        await request.close()  # closes uploaded files
        raise ApiProblem(
            403,
            "form_of_another_session",
            "The form is not of this session.",
            _FROM_PAGE,
        )


def build_pages(site: ApiSite, api: ASGIApp) -> FastAPI:
    """Build the pages over a REST application.

    Args:
        site: the installation, for sessions and the clock; all data comes through the API.
        api: the REST application.
    """
    app = FastAPI(
        title="Perdure",
        # FastAPI's own pages about an API would load scripts from other hosts.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # For every route, so that no new form can be without it.
        dependencies=[Depends(from_own_form)],
        middleware=[Middleware(Entrance, site=site)],
    )
    app.state.site, app.state.api = site, api
    app.state.watches = Watches(site, api)
    app.state.shared = Shared[object](SHARED_S)
    for router in ROUTERS:
        app.include_router(router)
    app.add_api_route("/assets/{digest}/{name}", _asset, methods=["GET"])
    app.add_exception_handler(ApiProblem, _refused)
    app.add_exception_handler(HTTPException, _unknown)
    app.add_exception_handler(StoreAway, _away)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _of_defect)
    return app


class ApiAndPages:
    """The API and the pages at one address."""

    def __init__(self, *, api: ASGIApp, pages: ASGIApp) -> None:
        self._api, self._pages = api, pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route the request to the API or the pages."""
        # The server's start and end are told to the API alone: the pages open nothing of their own.
        for_api = scope["type"] != "http" or scope["path"].startswith(API_PATHS)
        await (self._api if for_api else self._pages)(scope, receive, send)


async def _asset(name: str, digest: str) -> Response:
    if name not in FILES:
        raise HTTPException(404)
    media, content = FILES[name]
    if asset(name) != f"/assets/{digest}/{name}":
        # A page from before an upgrade still asks for the file's old digest.
        return RedirectResponse(asset(name))
    kept = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(content(), media_type=media, headers=kept)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiProblem)
    return _problem(request, error)


async def _away(request: Request, error: Exception) -> Response:
    """The store went away while a page itself was reading it."""
    assert isinstance(error, StoreAway)
    return _problem(request, ApiProblem(503, error.code, error.message, error.cure or ""))


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = error.status_code
    unreadable = "bad_request", f"The form cannot be read: {error.detail}", _FROM_PAGE
    return _problem(request, ApiProblem(status, *_UNKNOWN.get(status, unreadable)))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    lines = tuple(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return _problem(
        request, ApiProblem(422, "invalid_input", "The request is not valid.", "", lines)
    )


async def _of_defect(request: Request, error: Exception) -> Response:
    """An unexpected error, which the server logs in full; the visitor gets no details."""
    del error
    told = "Something failed inside. Its cause is in the log of the API."
    found = ApiProblem(DEFECT, "internal", told, "Read `perdure logs api`.")
    return guarded(_problem(request, found))


def _problem(request: Request, found: ApiProblem) -> Response:
    """The page for a refusal; for a script only the part with the refusal."""
    site: ApiSite = request.app.state.site
    # Also where the API said so: only this page comes back by itself.
    if found.title == StoreAway.code:
        reads = request.method in READING
        return away_page(site.now(), detail=found.detail, cure=found.cure, reads=reads)
    # Paths that are open to guests have no visit.
    if not isinstance(request.scope.get(VISITOR), Visitor):
        body = rendered(
            "layout/refused.html", site.now(), title=found.detail, detail="", cure=found.cure
        )
        return HTMLResponse(body, status_code=found.status)
    visit = visit_of(request)
    template = "layout/problem_part.html" if visit.wants_part else "layout/problem.html"
    return visit.page(template, status_code=found.status, found=found)
