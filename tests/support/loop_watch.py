"""Fails a test in which the event loop stood; by processor time, as machines may be busy."""

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager

LOOP_S = 0.2
PROCESS_S = 4.0


@contextmanager
def unblocked(*, process_s: float = PROCESS_S) -> Generator[None]:
    """Run a block; afterwards no step of the loop may have used more than 200 ms of its thread.

    What runs in threads holds the interpreter as well, so that the whole process has a limit, too;
    what other processes do is not counted.
    """
    worst: tuple[float, str] = (0.0, "")
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        nonlocal worst
        began = time.thread_time()
        run(handle)
        took = time.thread_time() - began
        if took > worst[0]:
            worst = (took, repr(handle))

    began = time.process_time()
    setattr(asyncio.Handle, "_run", timed)  # noqa: B010 - its parameter has another name
    try:
        yield
    finally:
        asyncio.Handle._run = run
    assert worst[0] < LOOP_S, f"the loop stood for {worst[0]:.2f} s in {worst[1][:300]}"
    used = time.process_time() - began
    assert used < process_s, f"the process used {used:.1f} s"
