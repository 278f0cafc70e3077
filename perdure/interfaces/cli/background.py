"""What goes on beside a command, and must not decide how it ends."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager

from perdure.event_log import get_logger

_log = get_logger(__name__)


@asynccontextmanager
async def beside(work: Coroutine[object, object, None]) -> AsyncGenerator[None]:
    """Do something in the background until the block ends; what it fails with is only logged."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        # Waited for, so that it prints nothing behind what comes after the block.
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(ended, Exception):
            _log.warning("background_failed", exc_info=ended)
