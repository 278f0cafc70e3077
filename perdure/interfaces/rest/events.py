"""A run's events as resumable server-sent events; all followers share one reader."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic import JsonValue
from starlette.types import Message, Receive, Scope, Send

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.foundation.tolerance import read_stored
from perdure.domain.run.events import Event
from perdure.domain.run.live_text import LiveCall, newest_text
from perdure.domain.run.status import RunStatus, StoredRun
from perdure.interfaces.live_text import looks
from perdure.interfaces.places import Hide
from perdure.interfaces.rest.callers import Caller, Reader, Site, known_run, site_of, while_admitted
from perdure.interfaces.rest.error_responses import Refused, as_refusal
from perdure.interfaces.rest.news import News
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.runs import PREFIX
from perdure.interfaces.services import Services

KEPT = 1_000
TEXT_CHARACTERS = 4_000
CLOSING_S = 30.0


@dataclass(slots=True)
class Feed:
    """What is known of one run's events; `news` wakes the followers."""

    run: str
    events: list[Event] = field(default_factory=list)
    calls: tuple[LiveCall, ...] | None = None
    text: str | None = None
    texts: int = 0
    trouble: str | None = None
    troubles: int = 0
    failure: PerdureError | None = None
    over: bool = False
    followers: int = 0
    resets: int = 0
    reset_to: int = 0
    news: News = field(default_factory=News)

    def since(self, seq: int) -> list[Event]:
        """The kept events after a number."""
        return [event for event in self.events if event.seq > seq]

    def take(self, event: Event) -> None:
        """Keep an event.

        After a reset the run numbers its events anew from an earlier point; events from there on
        are dropped.
        """
        before = [known for known in self.events if known.seq < event.seq]
        if len(before) < len(self.events):
            self.resets, self.reset_to = self.resets + 1, event.seq - 1
        self.events = [*before, event][-KEPT:]
        self.news.tell()

    def show(self, calls: tuple[LiveCall, ...]) -> None:
        """Keep the current text of the models in the run and in the runs below it."""
        if calls == self.calls:
            return
        self.calls = calls
        newest = newest_text(calls, self.run)
        text = None if newest is None else newest[-TEXT_CHARACTERS:]
        if text != self.text:
            self.text, self.texts = text, self.texts + 1
        self.news.tell()


class Feeds:
    """The feeds in use; the reader of a run stops with its last follower."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._feeds: dict[str, tuple[Feed, asyncio.Task[None]]] = {}

    @asynccontextmanager
    async def follow(self, run: str) -> AsyncGenerator[Feed]:
        """Follow the feed of a run, which starts at the oldest event that the run still keeps."""
        feed, task = self._feeds.get(run) or self._opened(run)
        feed.followers += 1
        try:
            yield feed
        finally:
            feed.followers -= 1
            if feed.followers == 0:
                # Where the reader has ended, a later follower may have opened another feed already.
                if self._feeds.get(run, (None,))[0] is feed:
                    del self._feeds[run]
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    @property
    def reading(self) -> tuple[str, ...]:
        """The runs that are read now."""
        return tuple(self._feeds)

    def _opened(self, run: str) -> tuple[Feed, asyncio.Task[None]]:
        feed = Feed(run)
        opened = feed, asyncio.create_task(self._read(feed), name=f"feed of {run}")
        self._feeds[run] = opened
        return opened

    async def _read(self, feed: Feed) -> None:
        over = asyncio.Event()
        texts = asyncio.create_task(self._read_texts(feed, over))
        try:
            async for event in self._services.gateway.events(
                feed.run, on_trouble=lambda told: self._trouble(feed, told)
            ):
                if event.type == "ended":
                    over.set()
                    await self._wait_for_result(feed.run)
                feed.take(event)
        except PerdureError as error:
            feed.failure = error
        finally:
            # A new follower gets a new feed, because an ended run may be retried.
            if self._feeds.get(feed.run, (None,))[0] is feed:
                del self._feeds[feed.run]
            over.set()
            try:
                # The last text first: nobody looks at a feed again that is over.
                await asyncio.wait({texts}, timeout=CLOSING_S)
            finally:
                texts.cancel()
                feed.over = True
                feed.news.tell()

    async def _wait_for_result(self, run: str) -> None:
        """Wait until the result can be read, as clients ask for it as soon as they see `ended`."""
        with suppress(PerdureError, TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await self._services.gateway.result(run)

    def _trouble(self, feed: Feed, told: str) -> None:
        feed.trouble, feed.troubles = told, feed.troubles + 1
        feed.news.tell()

    async def _read_texts(self, feed: Feed, over: asyncio.Event) -> None:
        async for calls in looks(self._services.live(), feed.run, over):
            feed.show(calls)


HEARTBEAT_S = 15.0
TAKEN_WITHIN_S = 30.0
RETRY_MS = 2_000
# The schema of a single event: tools expect that for a stream.
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
    """Counts the open event streams of each token, and its requests that wait for an end."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: Counter[str] = Counter()

    def take(self, token: str) -> None:
        """Count one more stream until `release`; raises `Refused` above the limit."""
        if self._open[token] >= self._limit:
            raise Refused(
                429,
                "too_many_streams",
                f"The token follows {self._limit} runs already, or waits for their ends.",
                cure="Close one of the streams first, or wait for fewer ends at once.",
                headers={"retry-after": "5"},
            )
        self._open[token] += 1

    def release(self, token: str) -> None:
        self._open[token] -= 1
        if self._open[token] <= 0:
            del self._open[token]

    @contextmanager
    def taken(self, token: str) -> Generator[None]:
        """Count one more for as long as a request waits; raises `Refused` as `take`."""
        self.take(token)
        try:
            yield
        finally:
            self.release(token)


class CountedStream(StreamingResponse):
    """A stream that frees its place however it ends, even before its first byte."""

    def __init__(self, content: AsyncGenerator[bytes], *, release: Callable[[], None]) -> None:
        super().__init__(
            content,
            media_type="text/event-stream",
            # nginx would otherwise hold events back in its buffer.
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, then free its place; a client that reads too slowly is cut off."""

        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(TAKEN_WITHIN_S):
                    await send(message)
            except TimeoutError:
                # As a server reports a client that has left.
                raise OSError("the caller takes nothing") from None

        try:
            await super().__call__(scope, receive, send_in_time)
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
        str | None,
        Header(
            max_length=20,
            description="Go on behind this event. A number that the run does not have, or a text "
            "that is none, begins with the oldest event that the run keeps.",
        ),
    ] = None,
) -> Response:
    """Follow a run; a browser's `EventSource` takes it up again by itself."""
    row = await known_run(site, run)
    since = int(last_event_id) if last_event_id and last_event_id.isdecimal() else 0
    if since and (status := await _status(site.services, run)) is not None:
        if since > status.last_event and _is_sure(status, row):
            # Of another run, or this one was reset while the client was away and numbers its
            # events anew. Waiting for higher numbers would skip all events until then.
            since = 0
        elif row.ended_at is not None and since >= status.last_event:
            # An `EventSource` connects again after every end of a stream; only a 204 stops it.
            return Response(status_code=204)
    return stream_of(request, caller, run, lambda feed: _parts(feed, since, request.app.state.hide))


def stream_of(
    request: Request, caller: Caller, run: str, parts: Callable[[Feed], AsyncGenerator[bytes]]
) -> Response:
    """Stream what `parts` makes of a run's feed; raises `Refused` if the caller has too many."""
    site = site_of(request)
    feeds: Feeds = request.app.state.feeds
    streams: Streams = request.app.state.streams

    async def body() -> AsyncGenerator[bytes]:
        yield format_sse_event(retry=RETRY_MS)
        async with feeds.follow(run) as feed:
            async for part in while_admitted(parts(feed), request):
                site.in_use()
                yield part

    # Counted before the next await, so that simultaneous requests cannot all pass the limit.
    streams.take(caller.token.id)
    return CountedStream(body(), release=lambda: streams.release(caller.token.id))


async def _status(services: Services, run: str) -> RunStatus | None:
    with suppress(PerdureError):
        return await services.gateway.status(run)
    return None


def _is_sure(status: RunStatus, row: StoredRun) -> bool:
    """Whether a run has no event behind `last_event`: it says so itself, or said so at its end.

    The store knows only an older status of other runs, such as those that were terminated.
    """
    if status.source == "run":
        return True
    if row.status is None:
        return False
    return read_stored(RunStatus, row.status, what=f"the status of {row.id}").phase == "ended"


async def _parts(feed: Feed, since: int, hide: Hide) -> AsyncGenerator[bytes]:
    """Everything new in a feed, and a heartbeat while there is nothing."""
    texts, troubles, resets = 0, 0, feed.resets
    while True:
        # Read first, so that a change during the sends below leads to another round.
        seen, over = feed.news.count, feed.over
        if feed.resets != resets:
            resets, since = feed.resets, min(since, feed.reset_to)
        for event in feed.since(since):
            since = event.seq
            yield format_sse_event(
                event=event.type, data_str=event.model_dump_json(), id=str(event.seq)
            )
            if event.type == "ended":
                return
        if feed.texts != texts:
            texts = feed.texts
            yield format_stream_event("text", {"text": feed.text})
        if feed.troubles != troubles:
            troubles = feed.troubles
            yield format_stream_event("trouble", {"text": hide(feed.trouble or "")})
        if over:
            if feed.failure is not None:
                yield problem_of(feed.failure, hide)
            return
        if not await feed.news.after(seen, within=HEARTBEAT_S):
            yield KEEPALIVE_COMMENT


def format_stream_event(name: str, data: dict[str, JsonValue], id: str | None = None) -> bytes:
    """An event of the stream that is not an event of the run."""
    return format_sse_event(event=name, data_str=json.dumps(data), id=id)


def problem_of(failure: PerdureError, hide: Hide) -> bytes:
    """The event that says why a stream ends before its run."""
    refused = as_refusal(failure)
    return format_stream_event("problem", {"code": refused.code, "detail": hide(refused.detail)})
