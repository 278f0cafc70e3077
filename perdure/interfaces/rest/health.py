"""Health and readiness of the installation, and its figures for Prometheus."""

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.foundation.errors import PerdureError
from perdure.domain.installation.access import ApiToken
from perdure.gateway.types import RunFilter
from perdure.interfaces.metrics_outlet import MetricsOutlet
from perdure.interfaces.rest.auth_middleware import CALLER, METRICS_PATH
from perdure.interfaces.rest.callers import Site, needs
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.schemas import Readiness
from perdure.interfaces.rest.settings import METRICS, ApiSite

router = APIRouter(tags=["health"], route_class=BoundedRoute)


# Load balancers and watchers of uptime often ask by HEAD.
@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", response_class=PlainTextResponse)
async def health() -> str:
    """Whether this process answers."""
    return "ok\n"


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "Something is away."}},
)
async def ready(request: Request, site: Site) -> Response:
    """Whether server, store and a worker answer; which does not is told to tokens only."""
    store, server, worker = await asyncio.gather(_store(site), _server(site), _worker(site))
    parts = {"store": store, "server": server, "worker": worker}
    told = parts if isinstance(request.scope.get(CALLER), ApiToken) else {}
    found = Readiness(ready=all(parts.values()), parts=told)
    return JSONResponse(found.model_dump(), status_code=200 if found.ready else 503)


@router.get(
    METRICS_PATH,
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request, site: Site) -> Response:
    """How the installation stands, in the text format of Prometheus: runs, queues, costs, store."""
    if METRICS not in site.rules.public:
        needs("read")(request)
    outlet: MetricsOutlet = request.app.state.metrics
    text, media_type = await outlet.exposition()
    return Response(text, headers={"content-type": media_type})


async def _store(site: ApiSite) -> bool:
    try:
        await site.services.records.installation()
    except PerdureError:
        return False
    return True


async def _server(site: ApiSite) -> bool:
    try:
        await site.services.gateway.count(RunFilter(status="running"))
    except PerdureError:
        return False
    return True


async def _worker(site: ApiSite) -> bool:
    probe = AgentSpec.model_validate({"kind": "agent", "goal": "probe"})
    try:
        queues = await site.services.gateway.readiness(probe)
        return all(queue.served for queue in queues)
    except PerdureError:
        return False
