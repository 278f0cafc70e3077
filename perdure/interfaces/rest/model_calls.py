"""The model calls of one iteration, with what was said in them."""

from fastapi import APIRouter

from perdure.interfaces.model_calls import calls_of, told
from perdure.interfaces.rest.auth import Reader, Site, known_run
from perdure.interfaces.rest.paging import CursorText, Limit, cursors
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.run_reads import Index
from perdure.interfaces.rest.runs import PREFIX
from perdure.interfaces.rest.schemas import ModelCalls

router = APIRouter(prefix=f"{PREFIX}/{{run}}", tags=["one loop"], route_class=BoundedRoute)
CALLS = 20


@router.get("/iterations/{iteration}/calls")
async def model_calls(
    site: Site,
    _: Reader,
    run: str,
    iteration: Index,
    limit: Limit = CALLS,
    cursor: CursorText = None,
) -> ModelCalls:
    """Its model calls: prompt and reply as the model saw them, tokens, cost and time."""
    await known_run(site, run)
    pages = await cursors(site, "calls", run, iteration)
    offset = pages.offset(cursor)
    rows = await calls_of(site.services, run, iteration)
    return ModelCalls(
        items=await told(site.services, run, rows[offset : offset + limit]),
        cursor=pages.after(offset, limit=limit, total=len(rows)),
    )
