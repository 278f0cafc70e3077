"""Runs one function with a deadline, and limits its output.

Each synchronous function gets a daemon thread of its own, not one of a pool: a thread that does not
end would block the pool, and the exit of the process, for ever.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeVar

from perdure.adapters.logging.redacting import without_secrets
from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.llm.transcript import ToolOutcome
from perdure.domain.tools.definitions import ToolOutput
from perdure.extending.foreign_code import CodeEnded, contained
from perdure.extending.own_thread import start_in_own_thread
from perdure.extending.working_time import wait_within_limit

R = TypeVar("R")

GRACE_S = 1.0
HARD_CAP_BYTES = 5 * 1024 * 1024
FAILURE_CHARACTERS = 256 * 1024  # redacting more would block the event loop


@dataclass(frozen=True, slots=True)
class CallReturned:
    """The function returned."""

    value: object


@dataclass(frozen=True, slots=True)
class Late:
    """The deadline passed; `abandoned` if the function did not stop when asked."""

    type: Literal["late"]
    abandoned: bool


class Stop:
    """A flag for the function's thread, which is set at the deadline and at cancellation."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()


async def run(
    function: Callable[[], object], *, timeout_s: float, stop: Stop, grace_s: float = GRACE_S
) -> CallReturned | Late:
    """Call `function` and wait for it, at most `timeout_s` and the grace period.

    If the caller is cancelled, the function is cancelled first. Errors of the function are raised.
    """
    task = asyncio.ensure_future(_call(function))
    try:
        # Not `asyncio.wait_for`: the time in which a tool waits for an absent store does not count.
        done = await wait_within_limit(task, seconds=timeout_s)
    except asyncio.CancelledError:
        await _end(task, stop, grace_s=grace_s)
        raise
    if done:
        if task.cancelled():
            raise ToolFailure(
                "The tool cancelled its own task; report this to its author.", reason="tool_failed"
            )
        return CallReturned(task.result())
    return Late(type="late", abandoned=not await _end(task, stop, grace_s=grace_s))


async def in_thread(function: Callable[[], R]) -> R:
    """Run a blocking function in a daemon thread of its own.

    A first cancellation still waits for the thread, which may have been asked to stop. A second one
    abandons it.
    """
    future = start_in_own_thread(function)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        with suppress(Exception):  # the cancellation is what the caller is told
            await future
        raise


async def _call(function: Callable[[], object]) -> object:
    """Call it; what would end the process (`sys.exit`) becomes a failure of the tool."""
    try:
        with contained():
            return await value_of(function)
    except CodeEnded as ended:
        raise ToolFailure(f"The tool failed: {ended}.", reason="tool_failed") from ended


async def value_of(function: Callable[[], object]) -> object:
    """What a function returns: awaited if it is asynchronous, else called in a thread."""
    if inspect.iscoroutinefunction(function):
        return await _awaited(function())
    # A callable object may be asynchronous although no inspection says so; then it returns an
    # awaitable, which belongs to this event loop and not to the thread.
    value = await in_thread(function)
    return await _awaited(value) if inspect.isawaitable(value) else value


async def _awaited(value: object) -> object:
    if not isinstance(value, Awaitable):
        return value
    result: object = await value
    return result


async def _end(task: asyncio.Future[object], stop: Stop, *, grace_s: float) -> bool:
    """Ask the task to stop; returns whether it did within the grace period."""
    # Both are needed: a thread sees only the flag, and a coroutine only the cancellation.
    stop.set()
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=grace_s)
    task.add_done_callback(_forget)
    return bool(done)


def _forget(task: asyncio.Future[object]) -> None:
    """Retrieve the error of an abandoned task, or asyncio would log it as never retrieved."""
    if not task.cancelled():
        task.exception()


def tool_output(outcome: ToolOutcome, text: str, *, code: str = "") -> ToolOutput:
    """The output as every store accepts it: valid UTF-8, no NUL, at most the hard limit.

    Secrets are removed from failures. A result is content and stays as it is.
    """
    if outcome != "ok":
        text = without_secrets(text[:FAILURE_CHARACTERS])
    data = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace")
    if len(data) <= HARD_CAP_BYTES:
        return ToolOutput(outcome=outcome, text=data.decode(), code=code)
    kept = data[:HARD_CAP_BYTES].decode(errors="ignore")
    note = f"\n[… cut at {HARD_CAP_BYTES:,} of {len(data):,} bytes; ask for less at once …]"
    return ToolOutput(outcome=outcome, text=kept + note, code=code, truncated=True)
