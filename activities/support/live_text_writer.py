"""Shows the text of model calls in flight to people who watch; a call never waits for it.

A call only adds to its text in memory. One task per worker writes what has changed, of all calls
that somebody watches, in one commit at most four times a second. If the store is slow, the task
waits and the next write has the newest text; if the store fails, the task goes on without it.
"""

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from perdure.domain.llm.requests import ModelRequest
from perdure.domain.llm.whole_characters import whole_text
from perdure.domain.ports import LiveTexts
from perdure.domain.run.activity_messages import ModelCallRequest
from perdure.domain.run.live_text import LiveCall, TextEnd, Watches, call_name

# One commit holds all calls of the worker. While nobody watches there are only the looks, one small
# read each.
WRITE_EVERY_S = 0.25
LOOK_EVERY_S = 1.0
# Watchers say every ten seconds that they are still there.
WATCHED_S = 30.0
# The end of a call stays for watchers that look twice a second.
SHOWN_AFTER_END_S = 3.0
# Ended calls that are remembered while the store does not answer.
ENDED_KEPT = 100
CLOSING_S = 2.0


class LiveText:
    """The text of one attempt."""

    def __init__(self, about: LiveCall) -> None:
        self._about = about
        self._end = TextEnd()
        self._shown: tuple[int, bool] | None = None
        self.ended_at: float | None = None

    def add(self, delta: str) -> None:
        self._end.add(delta)

    @property
    def about(self) -> LiveCall:
        """The call, without its text."""
        return self._about

    @property
    def was_shown(self) -> bool:
        """Whether it has a row, as far as is known."""
        return self._shown is not None

    @property
    def changed(self) -> bool:
        """Whether its row is behind."""
        return self._shown != self._state

    def row(self) -> LiveCall:
        """What is shown from now on."""
        self._shown = self._state
        # Its end may be half of a character until the next piece comes.
        text = whole_text(self._end.text)
        now = {"start": self._end.start, "text": text, "ended": self._shown[1]}
        return self._about.model_copy(update=now)

    def forget_shown(self) -> None:
        """Forget what was shown: the row may or may not have been written."""
        self._shown = (-1, False)

    @property
    def _state(self) -> tuple[int, bool]:
        return self._end.length, self.ended_at is not None


class LiveTextWriter:
    """The calls in flight of one worker, and the task that writes them down.

    Args:
        texts: where watchers read.
        on_failure: called with the reason, once, when the store begins to fail.
    """

    def __init__(self, texts: LiveTexts, *, on_failure: Callable[[str], None]) -> None:
        self._texts = texts
        self._on_failure = on_failure
        self._watches = Watches(WATCHED_S)
        self._looked: float | None = None
        self._calls: list[LiveText] = []
        self._task: asyncio.Task[None] | None = None
        self._failing = False

    @contextmanager
    def showing(self, step: ModelCallRequest, request: ModelRequest) -> Generator[LiveText]:
        """The text of an attempt while the block runs; awaits nothing."""
        text = LiveText(_about(step, request))
        self._calls.append(text)
        if self._task is None or self._task.done():
            # Not in the context of the step: there, the store would be waited for.
            context = contextvars.Context()
            self._task = asyncio.create_task(self._write(), name="live text", context=context)
        try:
            yield text
        finally:
            text.ended_at = _now()
            self._forget(self._unwatched())

    async def close(self) -> None:
        """Remove the rows that are shown: a worker that ends has no calls."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CLOSING_S)
        shown = [one.about for one in self._calls if one.was_shown]
        self._calls.clear()
        if shown:
            last = asyncio.create_task(self._drop(shown))
            await asyncio.wait({last}, timeout=CLOSING_S)
            last.cancel()

    async def _drop(self, shown: list[LiveCall]) -> None:
        # Whatever is wrong with the store, the worker ends: a watcher prunes rows that are left.
        with contextlib.suppress(Exception):
            await self._texts.drop(shown)

    async def _write(self) -> None:
        while self._calls:
            try:
                answered = await self._once()
            except Exception as error:  # whatever it is, nothing of a paid call depends on it
                if not self._failing:
                    self._on_failure(str(error))
                self._failing = True
            else:
                # Most rounds ask nothing of the store, so they do not show that it is back.
                self._failing = self._failing and not answered
            await asyncio.sleep(WRITE_EVERY_S)

    async def _once(self) -> bool:
        """Look and write what is due; whether the store was asked for anything, and answered."""
        now = _now()
        look = self._looked is None or now - self._looked >= LOOK_EVERY_S
        if look:
            self._looked = now
            self._watches.look(await self._texts.watched(), _now())
        behind = [one for one in self._calls if self._watched(one) and one.changed]
        over = [one for one in self._calls if _is_over(one, _now())]
        if behind:
            await self._show(behind)
        if gone := [one.about for one in over if one.was_shown]:
            await self._texts.drop(gone)
        self._forget(over)
        return look or bool(behind or gone)

    async def _show(self, behind: list[LiveText]) -> None:
        try:
            await self._texts.show([one.row() for one in behind])
        # Also a cancellation: nobody knows then what was written.
        except BaseException:
            for one in behind:
                one.forget_shown()
            raise

    def _unwatched(self) -> list[LiveText]:
        """Ended calls that nobody watches, and those above the limit while the store is away."""
        ended = [one for one in self._calls if one.ended_at is not None]
        return [
            *(one for one in ended if not one.was_shown and not self._watched(one)),
            *ended[:-ENDED_KEPT],
        ]

    def _watched(self, text: LiveText) -> bool:
        return self._watches.is_watched(text.about.run, _now())

    def _forget(self, gone: Iterable[LiveText]) -> None:
        dropped = {id(one) for one in gone}
        self._calls = [one for one in self._calls if id(one) not in dropped]


def _is_over(text: LiveText, now: float) -> bool:
    return text.ended_at is not None and now - text.ended_at >= SHOWN_AFTER_END_S


def _now() -> float:
    return asyncio.get_running_loop().time()


def _about(step: ModelCallRequest, request: ModelRequest) -> LiveCall:
    context = request.context
    return LiveCall(
        run=context.run,
        call=call_name(context.call or context.key),
        key=context.key,
        attempt=context.attempt,
        iteration=step.iteration,
        phase=step.phase,
        role=step.role,
        worker=step.worker or "",
        model=request.model,
    )
