"""Calls code that is not ours: what it raises is an error of that code, never our end.

`sys.exit` (which argparse and click call) and a stray cancellation are no `Exception`. In a task
they would leave through the event loop or look like a cancellation of the step, and so end the
worker with all that it serves.
"""

import asyncio
import signal
import threading
import traceback
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

R = TypeVar("R")
CODE_CHARACTERS = 200


class CodeEnded(Exception):
    """Foreign code ended with something that is no error; the message says with what."""


class contained:
    """In this block, what foreign code raises becomes an `Exception`: `CodeEnded`, if it is none.

    What others ask for goes on as it is: a cancellation of the running task, and Ctrl-C. The block
    must be inside the coroutine that runs as a task, or inside the function that runs in a thread.
    """

    def __enter__(self) -> Self:
        self._task = _running_task()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or self._asked_for(error):
            return
        # With the trace of the code, so that an error can name the line that ended it.
        raise CodeEnded(_words(error)).with_traceback(trace) from error

    def _asked_for(self, error: BaseException) -> bool:
        match error:
            case asyncio.CancelledError():
                # Code may raise `CancelledError` itself; a task counts only real requests.
                return self._task is not None and self._task.cancelling() > 0
            case GeneratorExit():  # a coroutine that is thrown away is closed from outside
                return self._task is not _running_task()
            case KeyboardInterrupt():
                return _from_keyboard(error)
            case StopIteration():  # no future accepts it: whoever waits would wait for ever
                return False
            case _:
                return isinstance(error, Exception)


async def as_own_task(call: Callable[[], Awaitable[R]]) -> R:
    """Await foreign code in a task of its own, so that it cannot cancel the task of the caller.

    Raises:
        CodeEnded: it ended with something that is no error.
    """

    async def body() -> R:
        with contained():
            return await call()

    try:
        return await asyncio.create_task(body())
    except asyncio.CancelledError:
        # The caller was cancelled, or the code cancelled its own task: only the first is passed on.
        mine = _running_task()
        if mine is None or mine.cancelling():
            raise
        raise CodeEnded("it cancelled its own task") from None


def named(error: BaseException) -> str:
    """What went wrong in foreign code: kind and message, or how it ended."""
    if isinstance(error, CodeEnded) or not str(error):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: {error}"


def _words(error: BaseException) -> str:
    match error:
        case SystemExit(code=None):
            return "it ended the process with sys.exit()"
        case SystemExit(code=code):
            return f"it ended the process with sys.exit({code!r:.{CODE_CHARACTERS}})"
        case asyncio.CancelledError():
            return "it was cancelled, which nobody had asked for"
        case _:
            said = f": {error}" if str(error) else ""
            return f"it raised {type(error).__name__}{said}"


def _running_task() -> "asyncio.Task[object] | None":
    """The task that runs here; None in a thread without an event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _from_keyboard(error: BaseException) -> bool:
    """Whether a person may have pressed Ctrl-C, which Python raises in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return True  # it is raised in whatever runs, and looks like an interrupt of the code
    # asyncio.run has a handler of its own, and raises it from its own file.
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename == asyncio.runners.__file__
