"""Erasing one run: its content, what memory has of it, and what the server keeps."""

from fastapi import APIRouter

from perdure.domain.retention.erasure import Erased
from perdure.interfaces.rest.callers import Admin, Site
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.runs import PREFIX

router = APIRouter(prefix=PREFIX, tags=["loops"], route_class=BoundedRoute)


@router.post("/{run}/erase")
async def erase_run(site: Site, caller: Admin, run: str) -> Erased:
    """Erase an ended run with those below it; it cannot be undone, and a repeat completes it.

    Costs keep their sums. What is too young to be dropped safely goes with a later collection.
    """
    found = await site.services.erasure().erase(run, now=site.now())
    await site.trail.note_decision("run_erased", "", by=caller.name, run=run)
    return found


@router.get("/{run}/erase")
async def plan_erasure(site: Site, _: Admin, run: str) -> Erased:
    """What erasing a run would drop; nothing is dropped."""
    return await site.services.erasure().erase(run, now=site.now(), dry_run=True)
