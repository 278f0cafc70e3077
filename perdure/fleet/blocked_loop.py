"""Names in the log what blocks the event loop of a worker.

One call of code that is not ours, such as a tool of the program that a worker is part of, can stop
all that the worker serves. Steps then fail for want of heartbeats, which says nothing of the cause.
"""

import asyncio
import sys
import threading
import traceback
from collections.abc import Generator
from contextlib import contextmanager, suppress

from perdure.event_log import get_logger

BLOCKED_S = 5.0
LOOK_S = 1.0
FRAMES = 6

_log = get_logger(__name__)


@contextmanager
def telling_what_blocks(*, blocked_s: float = BLOCKED_S, look_s: float = LOOK_S) -> Generator[None]:
    """Watch the running event loop from a thread, until the context ends.

    Args:
        blocked_s: how long it may not answer before that is logged.
        look_s: the pause between two looks.
    """
    stop = threading.Event()
    watched = asyncio.get_running_loop(), threading.get_ident()
    threading.Thread(
        target=_watch, args=(*watched, stop, blocked_s, look_s), name="perdure-watch", daemon=True
    ).start()
    try:
        yield
    finally:
        stop.set()


def _watch(
    loop: asyncio.AbstractEventLoop,
    thread: int,
    stop: threading.Event,
    blocked_s: float,
    look_s: float,
) -> None:
    with suppress(RuntimeError):  # the event loop is closed
        while not stop.wait(look_s):
            answered = threading.Event()
            loop.call_soon_threadsafe(answered.set)
            # An event loop that has ended answers nothing either.
            if answered.wait(blocked_s) or stop.is_set():
                continue
            _log.warning(
                "event_loop_blocked",
                seconds=blocked_s,
                at=_stack(thread),
                cure="Make what blocks there a plain def, or await it in a thread.",
            )
            # Told once for each time that it is blocked, however long that lasts.
            while not answered.wait(look_s) and not stop.is_set():
                pass
            _log.info("event_loop_answers_again")


def _stack(thread: int) -> list[str]:
    """The innermost calls of a thread, each as file, line and function."""
    frame = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]
    calls = traceback.extract_stack(frame)[-FRAMES:]
    return [f"{one.filename}:{one.lineno} in {one.name}" for one in calls]
