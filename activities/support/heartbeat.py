"""Heartbeats on a timer of their own, and the time that a step has worked.

A model call may be silent for minutes and a tool for longer, so heartbeats never depend on events.
They cover the whole step, because a worker that waits for a lock of its store is not dead.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from temporalio import activity

from perdure.domain.foundation.retry_policies import PATIENCE, Patience
from perdure.extending.foreign_code import contained
from perdure.extending.working_time import wait_within_limit


class Stopwatch:
    """Measures seconds of work since it was created, by a monotonic clock."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._patience = PATIENCE.get() or Patience()
        self._started = self._clock()
        self._waited = self._patience.store_seconds(self._started)

    @property
    def seconds(self) -> float:
        """Seconds of work so far, to the millisecond."""
        now = self._clock()
        waited = self._patience.store_seconds(now) - self._waited
        return round(max(0.0, now - self._started - waited), 3)


R = TypeVar("R")

# Several: one that the network loses must not make a worker look dead.
BEATS_PER_TIMEOUT = 4


@dataclass(frozen=True, slots=True)
class Finished(Generic[R]):
    """The work finished, with its result."""

    value: R


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The work was ended early: cancelled by the workflow, or out of active time."""

    by: str


async def within(
    work: Coroutine[object, object, R], *, seconds: float | None
) -> Finished[R] | Interrupted:
    """Run `work`, and end it when the workflow cancels it or `seconds` are over.

    If the worker shuts down, the cancellation is raised instead, and the server gives the step to
    another worker.
    """
    task = asyncio.ensure_future(caught(work))
    try:
        done = await wait_within_limit(task, seconds=seconds)
    except asyncio.CancelledError:
        ended = await _end(task, by="cancelled")
        if not cancelled_by_workflow():
            raise
        return ended
    if not done:
        return await _end(task, by="active_time")
    return Finished(value=task.result())


async def to_the_end(work: Coroutine[object, object, R]) -> R:
    """Finish `work` even if the step is cancelled: what was paid for must be recorded."""
    task = asyncio.ensure_future(caught(work))
    while not task.done():
        try:
            await asyncio.shield(asyncio.wait({task}))
        except asyncio.CancelledError:
            continue
    return task.result()


async def caught(work: Coroutine[object, object, R]) -> R:
    """The work as a task may run it: foreign code in it can end the step, but not the worker."""
    with contained():
        return await work


def cancelled_by_workflow() -> bool:
    """Whether the running activity was cancelled on request, not by a shutdown or a timeout."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested and not details.worker_shutdown


def cancelled_by_shutdown() -> bool:
    """Whether the running activity was cancelled because its worker shuts down."""
    details = activity.cancellation_details()
    return details is not None and details.worker_shutdown


def stopped_by_server() -> bool:
    """Whether somebody paused or reset the running activity at the server."""
    details = activity.cancellation_details()
    return details is not None and (details.paused or details.reset)


def given_up_by_server() -> bool:
    """Whether the server has said that it no longer waits for this attempt."""
    details = activity.cancellation_details()
    return details is not None and details.not_found


@asynccontextmanager
async def heartbeats() -> AsyncGenerator[None]:
    """Send heartbeats while the body runs, if the step has a heartbeat timeout.

    Such a step may wait for an absent store. Its heartbeats then say so in status and Web UI. They
    also say which attempt they are of: one that was never heard of may never have reached a worker.
    """
    timeout = activity.info().heartbeat_timeout
    patience = Patience(can_wait=timeout is not None)
    token = PATIENCE.set(patience)
    beats = None
    if timeout is not None:
        every = timeout.total_seconds() / BEATS_PER_TIMEOUT
        beats = asyncio.ensure_future(_beat(every, patience))
    try:
        yield
    finally:
        if beats is not None:
            beats.cancel()
        PATIENCE.reset(token)


async def _beat(every: float, patience: Patience) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        told = patience.store_wait(clock())
        # The SDK throttles heartbeats by itself; beating often costs nothing, and a missed one
        # costs a retry.
        activity.heartbeat(told, activity.info().attempt)
        await asyncio.sleep(every)


async def _end(task: "asyncio.Future[R]", *, by: str) -> Finished[R] | Interrupted:
    task.cancel()
    # The work closes its stream or process group first; it may also just have come to its end.
    await asyncio.wait({task})
    if task.cancelled() or task.exception() is not None:
        return Interrupted(by=by)
    return Finished(value=task.result())
