"""One reader of a run's events for all who follow it, and the text of the call in progress."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.run.events import Event
from perdure.interfaces.services import Services

KEPT = 1_000
TEXT_EVERY_S = 0.5
TEXT_CHARACTERS = 4_000
CLOSING_S = 30.0


@dataclass(slots=True)
class Feed:
    """What is known of one run's events; `news` ends when there is more to know."""

    run: str
    events: list[Event] = field(default_factory=list)
    text: str | None = None
    texts: int = 0
    trouble: str | None = None
    troubles: int = 0
    failure: PerdureError | None = None
    over: bool = False
    followers: int = 0
    resets: int = 0
    reset_to: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def since(self, seq: int) -> list[Event]:
        """The events after a number, as far as they are kept."""
        return [event for event in self.events if event.seq > seq]

    def take(self, event: Event) -> None:
        """Keep an event; a run that was reset counts again, and what it forgot goes."""
        before = [known for known in self.events if known.seq < event.seq]
        if len(before) < len(self.events):
            self.resets, self.reset_to = self.resets + 1, event.seq - 1
        self.events = [*before, event][-KEPT:]
        self.tell()

    async def news(self) -> None:
        """Wait for the next change; look at the feed before, without waiting in between."""
        await self._changed.wait()

    def tell(self) -> None:
        """Wake everyone who waits for news."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class Feeds:
    """The feeds that somebody follows; the last one to leave ends the reading."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._feeds: dict[str, tuple[Feed, asyncio.Task[None]]] = {}

    @asynccontextmanager
    async def follow(self, run: str) -> AsyncGenerator[Feed]:
        """The feed of a run, read from its beginning as far as the run keeps it."""
        feed, task = self._feeds.get(run) or self._opened(run)
        feed.followers += 1
        try:
            yield feed
        finally:
            feed.followers -= 1
            if feed.followers == 0:
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
        texts = asyncio.create_task(self._read_text(feed))
        try:
            async for event in self._services.gateway.events(
                feed.run, on_trouble=lambda told: self._trouble(feed, told)
            ):
                if event.type == "ended":
                    await self._closed(feed.run)
                feed.take(event)
        except PerdureError as error:
            feed.failure = error
        finally:
            texts.cancel()
            # Whoever comes now begins anew: an ended run may be retried.
            if self._feeds.get(feed.run, (None,))[0] is feed:
                del self._feeds[feed.run]
            feed.over = True
            feed.tell()

    async def _closed(self, run: str) -> None:
        """Hold `ended` back until the result can be read: whoever hears of the end asks for it."""
        with suppress(PerdureError, TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await self._services.gateway.result(run)

    def _trouble(self, feed: Feed, told: str) -> None:
        feed.trouble, feed.troubles = told, feed.troubles + 1
        feed.tell()

    async def _read_text(self, feed: Feed) -> None:
        while True:
            with suppress(PerdureError):
                text = await self._services.records.live_text(feed.run)
                shown = None if text is None else text[-TEXT_CHARACTERS:]
                if shown != feed.text:
                    feed.text, feed.texts = shown, feed.texts + 1
                    feed.tell()
            await asyncio.sleep(TEXT_EVERY_S)
