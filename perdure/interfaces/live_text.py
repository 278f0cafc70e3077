"""The text of model calls in progress, of a run and the runs below it, until the run ends."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.ports import LiveTexts
from perdure.domain.run.events import Event
from perdure.domain.run.live_text import LiveCall, LivePart, LiveReading

LOOK_EVERY_S = 0.5
# A worker considers a run watched for three times as long.
SAY_WATCHING_EVERY_S = 10.0
# By then a worker has written the text of the last call.
LAST_LOOK_AFTER_S = 0.6


async def looks(
    texts: LiveTexts, run: str, over: asyncio.Event
) -> AsyncGenerator[tuple[LiveCall, ...]]:
    """The calls in progress, twice a second, and once more shortly after the run is `over`.

    While the store is unavailable nothing is yielded, and the looks go on.
    """
    clock = asyncio.get_running_loop().time
    said: float | None = None
    while True:
        # Read before the look, so that one full look follows the end.
        last = over.is_set()
        calls: tuple[LiveCall, ...] | None = None
        with suppress(PerdureError):
            if said is None or clock() - said >= SAY_WATCHING_EVERY_S:
                # Once for each watcher: what a dead worker left is dropped by whoever looks.
                if said is None:
                    await texts.prune()
                await texts.watch(run)
                said = clock()
            calls = tuple(await texts.below(run))
        if calls is not None:
            yield calls
        if last:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY_S):
                await over.wait()
        if over.is_set():
            await asyncio.sleep(LAST_LOOK_AFTER_S)


async def parts(
    texts: LiveTexts, run: str, events: AsyncIterator[Event]
) -> AsyncGenerator[LivePart]:
    """What the models of a run and the runs below it say, in parts.

    Args:
        texts: where workers write it.
        run: the run at the top.
        events: of the run; the parts end when they end, and their errors are raised here.
    """
    over, reading = asyncio.Event(), LiveReading()
    following = asyncio.create_task(_until_ended(events, over))
    try:
        async for calls in looks(texts, run, over):
            for part in reading.news(calls):
                yield part
        await following
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError, PerdureError):
            await following


async def _until_ended(events: AsyncIterator[Event], over: asyncio.Event) -> None:
    try:
        async for _ in events:
            pass
    finally:
        over.set()
