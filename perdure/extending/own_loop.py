"""Runs asynchronous code of plugins in event loops that are not the worker's.

One `time.sleep` in a coroutine blocks its event loop: in the worker's, it would stop every run, its
heartbeats and its deadlines.
"""

import asyncio
import contextvars
import functools
import inspect
import logging
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import FrameType
from typing import Generic, ParamSpec, TypeVar

from perdure.extending.foreign_code import contained

P = ParamSpec("P")
R = TypeVar("R")

HELD_S = 0.9  # less than a late tool gets to stop, so the call after it finds a free event loop

log = logging.getLogger(__name__)


class OwnLoops:
    """The event loops of plugins: one for each package, whose functions share clients.

    Calls come from the worker's event loop only.
    """

    def __init__(self) -> None:
        self._by_package: dict[str, OwnLoop] = {}

    def aside(
        self, function: Callable[P, object], *, leave_after_s: float | None = None
    ) -> Callable[P, object]:
        """The function, whose asynchronous part runs in the event loop of its package."""
        own = self.of(function)
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def asynchronous(*args: P.args, **kwargs: P.kwargs) -> object:
                return await own.run(lambda: function(*args, **kwargs), leave_after_s=leave_after_s)

            return asynchronous

        @functools.wraps(function)
        def plain(*args: P.args, **kwargs: P.kwargs) -> object:
            # A plain function may return a coroutine, as a lambda around an `async def` does.
            value = function(*args, **kwargs)
            if not inspect.isawaitable(value):
                return value
            return own.run(lambda: value, leave_after_s=leave_after_s)

        return plain

    def of(self, code: object) -> "OwnLoop":
        """The event loop of the package that a function, or the class of an object, is from."""
        # The module of a partial is `functools`.
        while isinstance(code, functools.partial):
            code = code.func
        package = _package(getattr(code, "__module__", None))
        return self._by_package.setdefault(package, OwnLoop(package))


class OwnLoop:
    """An event loop in a daemon thread, made at the first call.

    Clients and sessions stay usable from call to call. A call that blocks holds up the others of
    the same plugin, as in any event loop. While one does not answer, further calls get a new one.

    Args:
        name: of the plugin's package, for the log.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._threads: list[_LoopThread] = []

    async def run(
        self, call: Callable[[], Awaitable[R]], *, leave_after_s: float | None = None
    ) -> R:
        """Call and await it there.

        A first cancellation asks it to stop and waits for its end. A second one abandons it.

        Args:
            call: makes what is awaited; it is called in that event loop too.
            leave_after_s: how long a cancelled call may take to stop; None waits for a second
                cancellation.

        Raises:
            CodeEnded: it ended with something that is no error.
        """
        thread = self._free()
        running = _Running(call, asyncio.get_running_loop())
        thread.loop.call_soon_threadsafe(running.start, context=contextvars.copy_context())
        try:
            # Else a cancellation would settle the outcome, and nobody could wait for the real end.
            return await asyncio.shield(running.outcome)
        except asyncio.CancelledError:
            running.withdraw()
            thread.ask(running.cancel)
            await asyncio.wait({running.outcome}, timeout=leave_after_s)
            raise

    def _free(self) -> "_LoopThread":
        """The first event loop that answers: clients were most likely made in that one."""
        for thread in self._threads:
            if not thread.is_held():
                return thread
            if not thread.told:
                thread.told = True
                log.warning(
                    "The plugin %s blocks its event loop at %s. Its next calls run in another one. "
                    "Write blocking code as a plain def.",
                    self._name,
                    thread.place(self._name),
                )
        self._threads.append(_LoopThread())
        return self._threads[-1]


class _LoopThread:
    """A running event loop, and since when it owes an answer.

    Attributes:
        told: whether the log has been told that it is blocked now.
    """

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.told = False
        self._asked: float | None = None
        self._thread = threading.Thread(
            target=self.loop.run_forever, name="perdure-plugin", daemon=True
        )
        self._thread.start()

    def ask(self, do: Callable[[], None]) -> None:
        """Have something done in the event loop, and note if it is not."""
        # The oldest question counts: a newer one would hide how long nothing was answered.
        if self._asked is None:
            self._asked = asyncio.get_running_loop().time()
        self.loop.call_soon_threadsafe(self._answer, do)

    def _answer(self, do: Callable[[], None]) -> None:
        self._asked, self.told = None, False
        do()

    def is_held(self) -> bool:
        """Whether it has not answered for longer than a free event loop takes."""
        return self._asked is not None and asyncio.get_running_loop().time() - self._asked > HELD_S

    def place(self, package: str) -> str:
        """The line that the thread is at: of the package itself, if its code is on the stack."""
        innermost = sys._current_frames().get(self._thread.ident or 0)  # pyright: ignore[reportPrivateUsage]
        if innermost is None:
            return "a line that is not known"
        frame: FrameType | None = innermost
        while frame is not None and _package(frame.f_globals.get("__name__")) != package:
            frame = frame.f_back
        shown = frame or innermost
        return f"{shown.f_code.co_filename}, line {shown.f_lineno}"


class _Running(Generic[R]):
    """One call: it runs in its event loop, and is awaited in the caller's.

    A call that is withdrawn before its event loop came to it never begins.
    """

    def __init__(self, call: Callable[[], Awaitable[R]], caller: asyncio.AbstractEventLoop) -> None:
        self.outcome: asyncio.Future[R] = caller.create_future()
        self._call = call
        self._caller = caller
        self._task: asyncio.Task[R] | None = None
        self._withdrawn = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin, in the event loop of the plugin."""
        with self._lock:
            if not self._withdrawn:
                self._task = asyncio.create_task(self._body())
                self._task.add_done_callback(self._tell)

    def withdraw(self) -> None:
        """Make a call that has not begun end as cancelled, from the caller's event loop."""
        with self._lock:
            if self._task is None:
                self._withdrawn = True
                self.outcome.cancel()

    def cancel(self) -> None:
        """Ask it to stop, in the event loop of the plugin."""
        if self._task is not None:
            self._task.cancel()

    async def _body(self) -> R:
        with contained():
            return await self._call()

    def _tell(self, task: "asyncio.Task[R]") -> None:
        with suppress(RuntimeError):  # the caller's event loop is closed, so nobody waits
            self._caller.call_soon_threadsafe(self._settle, task)

    def _settle(self, task: "asyncio.Task[R]") -> None:
        if self.outcome.done():
            return
        if task.cancelled():
            self.outcome.cancel()
        elif error := task.exception():
            self.outcome.set_exception(error)
            self.outcome.exception()  # nobody may wait any more; asyncio would log it as lost
        else:
            self.outcome.set_result(task.result())


def _package(module: object) -> str:
    return str(module).partition(".")[0]
