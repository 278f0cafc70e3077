"""Runs blocking code of others in threads that nobody has to wait for.

Code that never returns would keep a thread of a pool for ever: after a few of them, whatever else
uses the pool waits too, such as reading blobs, and the process cannot end.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from perdure.extending.foreign_code import contained

R = TypeVar("R")


async def in_own_thread(call: Callable[[], R]) -> R:
    """Call a blocking function in a daemon thread of its own; a cancelled caller leaves it there.

    Raises:
        CodeEnded: it ended with something that is no error.
    """
    return await start_in_own_thread(call)


def start_in_own_thread(call: Callable[[], R]) -> "asyncio.Future[R]":
    """The result to come of a function that runs in a daemon thread of its own from now on."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[R] = loop.create_future()
    # A thread begins with an empty context: logs and spans would not know the step.
    context = contextvars.copy_context()

    def body() -> None:
        try:
            with contained():
                value = context.run(call)
        except Exception as error:
            _deliver(loop, future, _failure(error))
        else:
            _deliver(loop, future, lambda: future.set_result(value))

    # A function of its own: `error` of the handler is unbound by the time that this is called.
    def _failure(error: Exception) -> Callable[[], None]:
        return lambda: future.set_exception(error)

    threading.Thread(target=body, name="perdure-foreign", daemon=True).start()
    return future


def _deliver(
    loop: asyncio.AbstractEventLoop, future: "asyncio.Future[R]", settle: Callable[[], None]
) -> None:
    def unless_done() -> None:
        # A caller that was cancelled has cancelled the future, which takes no result any more.
        if not future.done():
            settle()

    with suppress(RuntimeError):  # the event loop is closed, so nobody waits for the result
        loop.call_soon_threadsafe(unless_done)
