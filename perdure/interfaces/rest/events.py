"""A run's events as they happen, as server-sent events that can be taken up again."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic import JsonValue
from starlette.types import Receive, Scope, Send

from perdure.domain.run.events import Event
from perdure.interfaces.places import Hide
from perdure.interfaces.rest.auth import Reader, Site, known_run
from perdure.interfaces.rest.error_responses import Refused, as_refusal
from perdure.interfaces.rest.event_fanout import Feed, Feeds
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.runs import PREFIX

HEARTBEAT_S = 15.0
RETRY_MS = 2_000
# Of each event on its own, as tools read the schema of a stream.
EVENT_SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "event": {"type": "string"},
        "id": {"type": "string"},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}
router = APIRouter(prefix=f"{PREFIX}/{{run}}", tags=["one loop"], route_class=BoundedRoute)


class Streams:
    """How many event streams each token holds open."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: Counter[str] = Counter()

    def take(self, token: str) -> None:
        """Count one more, which `release` gives back; raises `Refused` where it is too many."""
        if self._open[token] >= self._limit:
            raise Refused(
                429,
                "too_many_streams",
                f"The token follows {self._limit} runs already.",
                cure="Close one of the streams first.",
                headers={"retry-after": "5"},
            )
        self._open[token] += 1

    def release(self, token: str) -> None:
        """Count one less."""
        self._open[token] -= 1
        if self._open[token] <= 0:
            del self._open[token]


class CountedStream(StreamingResponse):
    """A stream whose place is given back however it ends, even before its first byte."""

    def __init__(self, content: AsyncGenerator[bytes], *, release: Callable[[], None]) -> None:
        super().__init__(
            content,
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send, then give the place back."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._release()


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Events, each with its number as `id`; `text` shows the model call in "
            "progress, `trouble` what keeps the run from moving; `ended` is the last one.",
            "content": {"text/event-stream": {"schema": EVENT_SCHEMA}},
        },
        204: {"description": "The run has ended, and everything was sent before."},
    },
)
async def events(
    request: Request,
    site: Site,
    caller: Reader,
    run: str,
    last_event_id: Annotated[
        str | None, Header(max_length=20, description="Go on behind this event.")
    ] = None,
) -> Response:
    """Follow a run; a browser's `EventSource` takes it up again by itself."""
    row = await known_run(site, run)
    since = int(last_event_id) if last_event_id and last_event_id.isdecimal() else 0
    if since and row.ended_at is not None:
        status = await site.services.gateway.status(run)
        if since >= status.last_event:
            return Response(status_code=204)
    feeds: Feeds = request.app.state.feeds
    streams: Streams = request.app.state.streams

    async def body() -> AsyncGenerator[bytes]:
        yield format_sse_event(retry=RETRY_MS)
        async with feeds.follow(run) as feed:
            async for part in _parts(feed, since, request.app.state.hide):
                site.in_use()
                yield part

    # Counted before anything is awaited again: many that come at once cannot pass together.
    streams.take(caller.token.id)
    return CountedStream(body(), release=lambda: streams.release(caller.token.id))


async def _parts(feed: Feed, since: int, hide: Hide) -> AsyncGenerator[bytes]:
    """Everything new of a feed, and a heartbeat where nothing is."""
    texts, troubles, resets = 0, 0, feed.resets
    while True:
        over = feed.over
        if feed.resets != resets:
            resets, since = feed.resets, min(since, feed.reset_to)
        for event in feed.since(since):
            since = event.seq
            yield _event(event)
            if event.type == "ended":
                return
        if feed.texts != texts:
            texts = feed.texts
            yield _told("text", {"text": feed.text})
        if feed.troubles != troubles:
            troubles = feed.troubles
            yield _told("trouble", {"text": hide(feed.trouble or "")})
        if over:
            if feed.failure is not None:
                refused = as_refusal(feed.failure)
                yield _told("problem", {"code": refused.code, "detail": hide(refused.detail)})
            return
        if not await _news(feed):
            yield KEEPALIVE_COMMENT


async def _news(feed: Feed) -> bool:
    """Wait for something new; False when a heartbeat is due before."""
    try:
        async with asyncio.timeout(HEARTBEAT_S):
            await feed.news()
    except TimeoutError:
        return False
    return True


def _event(event: Event) -> bytes:
    return format_sse_event(event=event.type, data_str=event.model_dump_json(), id=str(event.seq))


def _told(name: str, data: dict[str, JsonValue]) -> bytes:
    return format_sse_event(event=name, data_str=json.dumps(data))
