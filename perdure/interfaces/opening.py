"""What keeps a client of Python open: for one process and event loop, and no longer than that."""

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import NoReturn, TypeVar

from perdure.domain.foundation.errors import NotAllowed

T = TypeVar("T")
_holding: set[asyncio.Task[None]] = set()  # an event loop knows its tasks weakly


class Opening:
    """Whether a connection is open, for the process and the event loop that opened it.

    Make it where the connection is opened. Locks and pools of stores belong to one event loop; a
    process that was forked off shares sockets with the other one, but has none of its threads.
    """

    def __init__(self) -> None:
        self._closed = False
        self._process = os.getpid()
        self._loop = asyncio.get_running_loop()

    def end(self) -> None:
        """From now on nothing of it is served."""
        self._closed = True

    def check(self) -> None:
        """Raise `NotAllowed` once it is closed, and where it was not opened."""
        self.check_place()
        if self._closed:
            raise NotAllowed(
                "This client is closed.", cure="Open another one: await Client.connect()."
            )

    def check_place(self) -> None:
        """Raise `NotAllowed` in another process, and in another event loop."""
        if self._process != os.getpid():
            raise NotAllowed(
                f"This client was opened by process {self._process}, and this is process "
                f"{os.getpid()}. Connections do not survive a fork.",
                cure="Open the first client of the parent after the fork, or start this process "
                'without one: multiprocessing.get_context("spawn"), or subprocess. Then open a '
                "client in each process: await Client.connect().",
            )
        if self._loop is not _running_loop():
            raise NotAllowed(
                "This client was opened in another event loop.",
                cure="Open a client in each event loop (await Client.connect()), or give the call "
                "to the loop of this one: asyncio.run_coroutine_threadsafe(call, loop).",
            )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class WhileOpen:
    """A part of a connection; its methods are reached only where and while that is open."""

    def __init__(self, part: object, opening: Opening) -> None:
        self._part = part
        self._opening = opening

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        self._opening.check()
        return getattr(self._part, name)


def not_pickled(self: object) -> NoReturn:
    """Refuse to pickle or copy what holds connections of its process."""
    raise TypeError(
        f"A {type(self).__name__} holds connections of this process and cannot be pickled or "
        "copied. Hand over the id of the run, and connect and attach where it arrives."
    )


async def enter_in_task(
    context: AbstractAsyncContextManager[T], opening: Opening
) -> tuple[T, Callable[[], Awaitable[None]]]:
    """Enter a context in a task of its own; returns its value, and what leaves it.

    A program that forgets to close its client, or that an error ends before, ends its event loop.
    That cancels this task, which leaves the context in order. Generators that are left to the loop
    are closed all at once instead, and each one prints a traceback over the error of the program.
    The context is left too once nobody has `opening` any more.

    Raises:
        BaseException: what entering raised.
    """
    loop, process = asyncio.get_running_loop(), os.getpid()
    entered: asyncio.Future[T] = loop.create_future()
    leave = asyncio.Event()

    async def hold() -> None:
        async with context as value:
            entered.set_result(value)
            await leave.wait()

    task = loop.create_task(hold())
    # At the end of an interpreter whose loop was never closed there is nobody to be told of it.
    setattr(task, "_log_destroy_pending", False)  # noqa: B010  (asyncio declares it nowhere)
    _holding.add(task)
    task.add_done_callback(_holding.discard)

    def leave_later() -> None:
        if os.getpid() == process:  # a fork has the loop's pipe, but not the loop
            with suppress(RuntimeError):  # the loop has ended, and the task with it
                loop.call_soon_threadsafe(leave.set)

    weakref.finalize(opening, leave_later).atexit = False

    async def close() -> None:
        leave.set()
        await asyncio.shield(task)

    try:
        await asyncio.wait({task, entered}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        raise
    if task.done():
        await task
    return entered.result(), close
