"""Text of model calls in progress as server-sent events, from the same feeds as events."""

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from perdure.domain.run.live_text import POSITIONS_LENGTH, LiveReading
from perdure.interfaces.places import Hide
from perdure.interfaces.rest.callers import Reader, Site, known_run
from perdure.interfaces.rest.events import (
    EVENT_SCHEMA,
    HEARTBEAT_S,
    Feed,
    format_stream_event,
    problem_of,
    stream_of,
)
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.runs import PREFIX

ENDED = "ended"
router = APIRouter(prefix=f"{PREFIX}/{{run}}", tags=["one loop"], route_class=BoundedRoute)


@router.get(
    "/stream",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Text of model calls in flight, of the run and of the runs below it: "
            "`call_started`, `text`, `call_restarted`, `call_ended`, and `ended` with the run. "
            "Lossy: what was not kept is counted in `skipped`; the whole text is in the history.",
            "content": {"text/event-stream": {"schema": EVENT_SCHEMA}},
        },
        204: {"description": "The run has ended, and this was sent before."},
    },
)
async def stream(
    request: Request,
    site: Site,
    caller: Reader,
    run: str,
    last_event_id: Annotated[
        str | None,
        Header(max_length=POSITIONS_LENGTH, description="Go on behind what was sent with this."),
    ] = None,
) -> Response:
    """Follow what models say while they say it; a browser's `EventSource` takes it up again."""
    row = await known_run(site, run)
    if last_event_id == ENDED and row.ended_at is not None:
        return Response(status_code=204)
    reading = LiveReading.since(last_event_id or "")
    return stream_of(
        request, caller, run, lambda feed: _texts(feed, reading, request.app.state.hide)
    )


async def _texts(feed: Feed, reading: LiveReading, hide: Hide) -> AsyncGenerator[bytes]:
    """Everything new in the calls of a feed; a slow client gets larger parts, or gaps."""
    while True:
        seen, over = feed.news.count, feed.over
        # None means that nothing was read yet, not that all calls are gone.
        if feed.calls is not None:
            for part in reading.news(feed.calls):
                yield format_sse_event(
                    event=part.type, data_str=part.model_dump_json(), id=reading.positions
                )
        if over:
            if feed.failure is not None:
                yield problem_of(feed.failure, hide)
            else:
                yield format_stream_event(ENDED, {"run": feed.run}, id=ENDED)
            return
        if not await feed.news.after(seen, within=HEARTBEAT_S):
            yield KEEPALIVE_COMMENT
