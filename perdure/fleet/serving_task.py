"""The task that serves loops beside somebody else's worker: both run, and they end together."""

import asyncio
from contextlib import suppress

from perdure.fleet.worker_ends import no_longer_served


async def while_both_run(work: "asyncio.Future[None]", serving: "asyncio.Task[None]") -> None:
    """Wait for the worker; if the serving of loops ends, cancel the worker."""
    try:
        await asyncio.wait({work, serving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not work.done():
            work.cancel()
        # The worker ends as cancelled by us; a cancellation of the caller goes on by itself.
        with suppress(asyncio.CancelledError):
            await work
    require_serving(serving)


def require_serving(serving: "asyncio.Task[None]") -> None:
    """Raise what ended the serving of loops, if anything did."""
    if not serving.done():
        return
    if serving.cancelled():
        # Not as a cancellation, which would look like one of the user's own program.
        raise no_longer_served("What serves the loops")
    serving.result()


async def wait_for_end(serving: "asyncio.Task[None]") -> None:
    """Wait for the end of a task, and leave its error to the caller.

    A cancellation of the caller ends the task, and is raised once that has ended.
    """
    told: asyncio.CancelledError | None = None
    while not serving.done():
        try:
            # Not `await serving`: that would raise here what ended it.
            await asyncio.wait({serving})
        except asyncio.CancelledError as error:
            told = error
            serving.cancel()
    if told is not None:
        raise told
