"""Live pages of runs: each change is read and rendered once, however many people watch.

All watchers with the same permissions share one reader, one stream of the API and one rendered
part. Only the form key differs between sessions. It is put in for each watcher at the end; the
template gets nothing else of a session, so one visitor's data cannot reach another.
"""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

from fastapi.responses import Response
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.types import ASGIApp

from perdure.domain.installation.access import ApiToken, Sight
from perdure.domain.run.status import RunStatus
from perdure.event_log import get_logger
from perdure.interfaces.rest.error_responses import Refused
from perdure.interfaces.rest.events import RETRY_MS, CountedStream, Streams
from perdure.interfaces.rest.news import News
from perdure.interfaces.rest.settings import ApiSite
from perdure.interfaces.web.api_calls import Api, ApiProblem, at
from perdure.interfaces.web.api_stream import followed
from perdure.interfaces.web.rendering import rendered
from perdure.interfaces.web.run.reading import read_run
from perdure.interfaces.web.visit import Visit

_log = get_logger(__name__)
# Seconds between two renderings of a run that keeps changing, and before the next try after a
# failure.
APART_S, AGAIN_S = 0.4, 2.0
# How often a stream checks that its session still holds, and sends a sign of life.
HEARTBEAT_S = 5.0
LONGEST_ID = 100
GONE = 404
# Stands in for the form key of a session in the rendered part. It is random and never shown, so no
# text of a run can contain it.
_ANY_KEY = secrets.token_hex(32)


@dataclass(frozen=True, slots=True)
class Part:
    """The changing part of a page as an event, split at the places of the form key.

    Args:
        id: a hash of the content without the key; equal parts have equal ids.
        pieces: the event between the places of the key.
    """

    id: str
    pieces: tuple[bytes, ...]

    @classmethod
    def of(cls, html: str) -> "Part":
        """Make a part from HTML whose forms hold `_ANY_KEY`."""
        said = hashlib.sha256(html.replace(_ANY_KEY, "").encode()).hexdigest()[:16]
        event = format_sse_event(data_str=html, id=said)
        return cls(said, tuple(event.split(_ANY_KEY.encode())))

    def event(self, form_key: str) -> bytes:
        """The event for one watcher, with the key of their session."""
        return form_key.encode().join(self.pieces)


class Watch:
    """The state of one run for all watchers with the same permissions, and its reader.

    Args:
        run: the run's id.
        all: include every iteration.
        token: the token of the first watcher; all watchers have the same permissions.
        api: the REST application.
        site: the installation, for the clock.
    """

    def __init__(
        self, run: str, *, all: bool, token: ApiToken, api: ASGIApp, site: ApiSite
    ) -> None:
        self.part: Part | None = None
        self.text: bytes | None = None
        self.over = False
        self.stale = False
        self.renders = 0
        self.watchers = 0
        self.news = News()
        self._run, self._all, self._token, self._app = run, all, token, api
        self._site = site
        self._changed = asyncio.Event()
        self._failed = False

    async def read(self) -> None:
        """Follow the run until it has ended."""
        # The first look, also at a run that tells nothing new.
        self._changed.set()
        rendering = asyncio.create_task(self._render_changes())
        try:
            while not await self._followed():
                self._changed.set()  # the rendered part itself says what broke the stream
                await asyncio.sleep(AGAIN_S)
        finally:
            rendering.cancel()
            await asyncio.gather(rendering, return_exceptions=True)
        while True:
            # The last look shows the end, so it is tried until it succeeds or the run is gone.
            if await self._rendered() or not self.stale:
                break
            await asyncio.sleep(AGAIN_S)
        self.over = True
        self.news.tell()

    async def _followed(self) -> bool:
        """Follow the stream once; return whether the run has ended."""
        path = f"{at('loops', self._run)}/events"
        try:
            async for told in followed(self._app, self._token, path):
                if told.event == "ended":
                    return True
                if told.event == "text":
                    self.text = format_sse_event(event="text", data_str=told.data)
                    self.news.tell()
                else:
                    self._changed.set()
        except ApiProblem:
            pass
        except Exception as error:
            self._log_defect(error)
        return False

    async def _render_changes(self) -> None:
        while True:
            await self._changed.wait()
            # Cleared first, so that a change while the run is read leads to another look.
            self._changed.clear()
            if not await self._rendered():
                self._changed.set()
                await asyncio.sleep(AGAIN_S)
            await asyncio.sleep(APART_S)

    async def _rendered(self) -> bool:
        """Read and render the run; False if the API refused, or something failed.

        The old part stays then, because people may be typing into its forms. Only if the run is
        gone does the part say so.
        """
        try:
            found = await self._read_and_render()
        except Exception as error:
            self._log_defect(error)
            self.stale, read = True, False
        else:
            self.stale, read = found is not None and found.status != GONE, found is None
        self.news.tell()
        return read

    async def _read_and_render(self) -> ApiProblem | None:
        """Make the part anew; the refusal of the API, if there is one."""
        now = self._site.now()
        found: ApiProblem | None = None
        given: Mapping[str, object]
        try:
            api = Api(self._app, self._token)
            given = await read_run(api, self._run, now=now, all=self._all)
            template = "run/now.html"
        except ApiProblem as problem:
            found = problem
            given, template = {"found": problem}, "layout/problem_part.html"
        if found is None or found.status == GONE:
            html = rendered(
                template, now, can=self._token.grants.__contains__, form_key=_ANY_KEY, **given
            )
            self.part = Part.of(html)
            self.renders += 1
        return found

    def _log_defect(self, error: Exception) -> None:
        # Once: it is tried again every few seconds, for as long as somebody watches.
        if not self._failed:
            self._failed = True
            _log.error("live_page_failed", run=self._run, exc_info=error)


class Watches:
    """The runs that are watched now; the reader of a run stops with its last watcher.

    Args:
        site: the installation, for the clock and the limit of open streams.
        api: the REST application.
    """

    def __init__(self, site: ApiSite, api: ASGIApp) -> None:
        self.streams = Streams(site.rules.streams)
        self._site, self._api = site, api
        self._watches: dict[Key, tuple[Watch, asyncio.Task[None]]] = {}

    @property
    def watched(self) -> tuple[Watch, ...]:
        return tuple(watch for watch, _ in self._watches.values())

    @asynccontextmanager
    async def follow(self, run: str, token: ApiToken, *, all: bool) -> AsyncGenerator[Watch]:
        """The watch of a run, kept up to date while somebody follows it."""
        key = Key(run, all, token.sight)
        watch, reading = self._watches.get(key) or self._opened(key, token)
        watch.watchers += 1
        try:
            yield watch
        finally:
            watch.watchers -= 1
            if watch.watchers == 0:
                if self._watches.get(key, (None,))[0] is watch:
                    del self._watches[key]
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    def _opened(self, key: "Key", token: ApiToken) -> tuple[Watch, asyncio.Task[None]]:
        watch = Watch(key.run, all=key.all, token=token, api=self._api, site=self._site)
        opened = watch, asyncio.create_task(watch.read(), name=f"watch of {key.run}")
        self._watches[key] = opened
        return opened


class Key(NamedTuple):
    """Watchers with equal keys share one reader and one rendered part."""

    run: str
    all: bool
    sight: Sight


async def watched(visit: Visit, run: str, *, all: bool, had: str | None) -> Response:
    """The stream for one watcher; a slow one skips intermediate parts but gets the last.

    Args:
        visit: the watcher's request.
        run: the run's id.
        all: include every iteration.
        had: the id of the part that the page already shows.

    Raises:
        ApiProblem: the visitor may not see the run, or follows too many.
    """
    path = at("loops", run)
    # Only for its refusal: a shared watch does not check the permissions of this visitor.
    await visit.shared(path, lambda: visit.api.get(path, RunStatus), RunStatus)
    watches: Watches = visit.request.app.state.watches
    token = visit.visitor.token

    async def body() -> AsyncGenerator[bytes]:
        yield format_sse_event(retry=RETRY_MS)
        async with watches.follow(run, token, all=all) as watch:
            told = news_of(watch, form_key=visit.visitor.form_key, had=had, holds=visit.holds)
            async for event in told:
                visit.site.in_use()
                yield event

    try:
        # Nothing is awaited from here to the answer, which alone frees the place again.
        watches.streams.take(token.id)
    except Refused as refused:
        raise ApiProblem(429, refused.code, refused.detail, refused.cure or "") from refused
    return CountedStream(body(), release=lambda: watches.streams.release(token.id))


async def news_of(
    watch: Watch, *, form_key: str, had: str | None, holds: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes]:
    """The events for one watcher.

    Args:
        watch: the shared state.
        form_key: of the watcher's session.
        had: the id of the part that the page already shows.
        holds: whether the session still holds.
    """
    clock = asyncio.get_running_loop().time
    text, sure_at, stale = None, clock(), False
    while True:
        # Read first, so that a change during the sends below leads to another round.
        seen, over = watch.news.count, watch.over
        if clock() - sure_at >= HEARTBEAT_S:
            if not await holds():
                return
            sure_at = clock()
        if watch.stale is not stale:
            stale = watch.stale
            yield format_sse_event(event="stale" if stale else "fresh", data_str="{}")
        if watch.part is not None and watch.part.id != had:
            had = watch.part.id
            yield watch.part.event(form_key)
        if watch.text is not None and watch.text is not text:
            text = watch.text
            yield text
        if over:
            yield format_sse_event(event="ended", data_str="{}")
            return
        if not await watch.news.after(seen, within=HEARTBEAT_S):
            # Proxies close a connection that is silent for long.
            yield KEEPALIVE_COMMENT
