"""The one place where Perdure's errors become Temporal's.

The type is the error's stable code; details carry what the workflow needs to settle the budget;
whether an attempt is repeated, and when, is decided here and nowhere else.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from functools import wraps
from typing import ParamSpec, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from temporalio import activity
from temporalio.exceptions import ApplicationError

from perdure.activities.support.heartbeat import cancelled_by_shutdown, heartbeats
from perdure.domain.foundation.errors import (
    InvalidInput,
    NotAllowed,
    NotFound,
    PerdureError,
    ServiceUnavailable,
    StoreAway,
    StoreError,
)
from perdure.domain.foundation.retry_policies import FOR_EVER, own_limit
from perdure.domain.run.activity_messages import ModelFailure
from perdure.domain.run.message_forms import Misread
from perdure.working_time import ended_in_time

P = ParamSpec("P")
R = TypeVar("R")

MESSAGE_LIMIT = 2_000
WORKER_SHUTDOWN = "worker_shutdown"
TIMED_OUT = "timeout"
UNREADABLE = (ValidationError, PydanticSerializationError, RecursionError, UnicodeError)
NEVER_RETRIED = (InvalidInput, NotAllowed, NotFound)


def translated(
    verb: Callable[P, Coroutine[object, object, R]],
) -> Callable[P, Coroutine[object, object, R]]:
    """Wrap an activity: heartbeats, and every Perdure error leaves it as an `ApplicationError`."""

    @wraps(verb)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R:
        _all_there(args)
        try:
            async with heartbeats():
                return await _within_its_limit(verb(*args, **kwargs))
        except asyncio.CancelledError:
            if not cancelled_by_shutdown():
                raise
            raise _shut_down() from None
        except PerdureError as error:
            if isinstance(error, StoreAway) and cancelled_by_shutdown():
                raise _shut_down() from error
            raise _application_error(error) from error
        except UNREADABLE as error:
            raise unreadable(error) from error

    return run


def _all_there(given: Sequence[object]) -> None:
    """End a step whose own input the store has lost: no attempt would ever find it."""
    for value in given:
        if isinstance(value, Misread):
            raise ApplicationError(
                f"The step's input cannot be read: {value.why}"[:MESSAGE_LIMIT],
                type=NotFound.code,
                non_retryable=True,
            )


async def _within_its_limit(work: Coroutine[object, object, R]) -> R:
    """End a body that works longer than its step may; what it waits for its store is not counted.

    The server's own limit has to leave room for any outage.
    """
    limit = own_limit(activity.info().start_to_close_timeout)
    if limit is None:
        return await work
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            if not await ended_in_time(task, seconds=limit):
                break
        except asyncio.CancelledError:
            task.cancel()  # the body ends what it holds, and may still report
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.wait({task})
    raise ApplicationError(f"the step worked for more than {limit:g} s", type=TIMED_OUT)


def _shut_down() -> ApplicationError:
    """The worker was stopped on purpose, which counts against no step.

    Where attempts are counted, the step ends, and the workflow schedules it anew.
    """
    policy = activity.info().retry_policy
    counted = policy is not None and policy.maximum_attempts != FOR_EVER
    return ApplicationError("the worker was shut down", type=WORKER_SHUTDOWN, non_retryable=counted)


def unreadable(error: Exception) -> ApplicationError:
    """A value that cannot be read or encoded: it will not heal by doing the work again."""
    return ApplicationError(
        f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT],
        type="unreadable_value",
        non_retryable=True,
    )


def model_failure(failure: ModelFailure, *, pause_s: float | None, fits: bool) -> ApplicationError:
    """A failed model attempt, with its account, retried when waiting may heal it.

    Args:
        failure: how it failed, and what the call used so far.
        pause_s: seconds until the next attempt; None: the provider has had its attempts.
        fits: another attempt fits what was reserved; else the workflow reserves anew for it.
    """
    facts = failure.facts
    pause = pause_s if facts.retryable else None
    if not fits:
        failure = failure.model_copy(update={"again_after_s": pause})
    again = pause is not None and fits
    return ApplicationError(
        facts.message[:MESSAGE_LIMIT],
        failure,
        type=f"model_{facts.kind}",
        non_retryable=not again,
        next_retry_delay=timedelta(seconds=pause) if pause is not None and fits else None,
    )


def _application_error(error: PerdureError) -> ApplicationError:
    retried = isinstance(error, StoreError | ServiceUnavailable)
    return ApplicationError(
        str(error)[:MESSAGE_LIMIT],
        type=error.code,
        non_retryable=not retried or isinstance(error, NEVER_RETRIED),
    )
