"""Plans: what a specification would do and could cost, before anything starts."""

from fastapi import APIRouter

from perdure.interfaces.look_ahead import look_ahead
from perdure.interfaces.plan import RunPlan
from perdure.interfaces.rest.callers import Operator, Site
from perdure.interfaces.rest.request_limits import BoundedRoute, Fields
from perdure.interfaces.rest.runs import PREFIX
from perdure.interfaces.rest.scopes import trusted_submission
from perdure.submission.loading import store

router = APIRouter(prefix=PREFIX, tags=["loops"], route_class=BoundedRoute)


@router.post("/plan")
async def plan(site: Site, caller: Operator, spec: Fields) -> RunPlan:
    """The plan of a run, its worst case and who is ready for it; nothing is started."""
    submission = await trusted_submission(site, caller, spec)
    return await look_ahead(
        site.services,
        await store(submission, site.services.blobs),
        default_model=site.surroundings.default_model,
        notes=submission.notes,
    )
