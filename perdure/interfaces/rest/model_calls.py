"""The model calls of one iteration, with prompts, replies and attachments."""

from fastapi import APIRouter
from fastapi.responses import Response

from perdure.domain.foundation.errors import NotFound
from perdure.interfaces.model_calls import attachment_shown, calls_of, read_model_calls
from perdure.interfaces.rest.callers import Reader, Site, known_run
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
        items=await read_model_calls(site.services, run, rows[offset : offset + limit]),
        cursor=pages.after(offset, limit=limit, total=len(rows)),
    )


@router.get("/iterations/{iteration}/attachments/{ref}", response_class=Response)
async def attachment(site: Site, _: Reader, run: str, iteration: Index, ref: str) -> Response:
    """An image or PDF that its models were shown, by the address in their prompts."""
    await known_run(site, run)
    shown = await attachment_shown(site.services, run, iteration, ref)
    if shown is None:
        raise NotFound(
            f"No model was shown {ref[:80]!r} in iteration {iteration} of {run}.",
            cure="Take the address of an image or PDF from the prompt of one of its calls.",
        )
    data = await site.services.blobs.get(ref)
    # A browser can show an image safely. A PDF may hold scripts, so it is only offered to save.
    where = "inline" if shown.kind == "image" else "attachment"
    headers = {
        "content-disposition": where,
        "content-security-policy": "default-src 'none'; sandbox",
    }
    return Response(data, media_type=shown.media_type, headers=headers)
