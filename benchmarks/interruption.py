"""SIGTERM, which `make` passes on when it is ended, ends a measurement with all that it started."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")

ENDED = 128 + signal.SIGTERM


def run(measuring: Coroutine[object, object, T]) -> T:
    """`asyncio.run`, in which SIGTERM cancels as Ctrl-C does.

    Raises:
        SystemExit: with `ENDED`, once what was started has ended.
    """
    try:
        return asyncio.run(_cancellable(measuring))
    except asyncio.CancelledError:
        raise SystemExit(ENDED) from None


async def _cancellable(measuring: Coroutine[object, object, T]) -> T:
    task = asyncio.ensure_future(measuring)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task
