"""The one place where Perdure's errors become Temporal's.

The type is the error's stable code, and the details hold what the workflow needs to settle the
budget. Only this module decides whether and when an attempt is retried.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from functools import wraps
from typing import ParamSpec, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from perdure.activities.support.heartbeat import (
    cancelled_by_shutdown,
    caught,
    given_up_by_server,
    heartbeats,
    stopped_by_server,
)
from perdure.domain.foundation.errors import (
    InvalidInput,
    NotAllowed,
    NotFound,
    PerdureError,
    ServiceUnavailable,
    StoreAway,
    StoreError,
)
from perdure.domain.foundation.json_extraction import to_encodable
from perdure.domain.foundation.retry_policies import FOR_EVER, own_limit
from perdure.domain.run.activity_messages import ModelFailure
from perdure.domain.run.hooks import HookFailed
from perdure.domain.run.message_forms import Misread
from perdure.extending.working_time import wait_within_limit

P = ParamSpec("P")
R = TypeVar("R")

MESSAGE_LIMIT = 2_000
WORKER_SHUTDOWN = "worker_shutdown"
TIMED_OUT = "timeout"
EFFECT_UNCERTAIN = "effect_uncertain"
STOPPED = "it was paused or reset at the server while it ran"
GIVEN_UP = (
    "the server no longer waits for this attempt: its run was reset, ended or deleted there, or "
    "its heartbeats did not arrive in time"
)
UNREADABLE = (ValidationError, PydanticSerializationError, RecursionError, UnicodeError)
NEVER_RETRIED = (InvalidInput, NotAllowed, NotFound)


def translated(
    verb: Callable[P, Coroutine[object, object, R]],
) -> Callable[P, Coroutine[object, object, R]]:
    """Wrap an activity: send heartbeats, and turn Perdure's errors into `ApplicationError`."""

    @wraps(verb)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R:
        _require_input(args)
        try:
            # Around everything, the store included: a step that waits for a lock is not a dead
            # worker.
            async with heartbeats():
                return await _within_its_limit(verb(*args, **kwargs))
        except asyncio.CancelledError:
            # A cancellation from the workflow or the server goes on as it is; Temporal knows what
            # it means.
            if cancelled_by_shutdown():
                raise _shutdown_error() from None
            if given_up_by_server():
                raise _quiet(GIVEN_UP, "given_up") from None
            # The server makes another attempt of it, whatever its policy allows.
            if stopped_by_server() and _runs_once():
                raise _quiet(STOPPED, EFFECT_UNCERTAIN, non_retryable=True) from None
            raise
        except PerdureError as error:
            if isinstance(error, StoreAway) and cancelled_by_shutdown():
                raise _shutdown_error(f"; it waited for the store: {error}") from error
            raise _application_error(error) from error
        except UNREADABLE as error:
            raise unreadable(error) from error

    return run


def refuse_again() -> None:
    """End a step that may run once and has begun before, as one that was paused at the server."""
    info = activity.info()
    # A reset counts attempts anew and leaves heartbeats.
    if _runs_once() and (info.attempt > 1 or info.heartbeat_details):
        raise _quiet("an attempt of it ran before", EFFECT_UNCERTAIN, non_retryable=True)


def _runs_once() -> bool:
    policy = activity.info().retry_policy
    return policy is not None and policy.maximum_attempts == 1


def _require_input(given: Sequence[object]) -> None:
    """End a step whose input the store has lost: no later attempt could find it."""
    for value in given:
        if isinstance(value, Misread):
            raise ApplicationError(
                f"The step's input cannot be read: {value.why}"[:MESSAGE_LIMIT],
                type=NotFound.code,
                non_retryable=True,
            )


async def _within_its_limit(work: Coroutine[object, object, R]) -> R:
    """End a step that works longer than it may, not counting the time it waits for its store.

    The server's own limit cannot do this, since it has to leave room for outages.
    """
    limit = own_limit(activity.info().start_to_close_timeout)
    if limit is None:
        return await caught(work)
    # Not `asyncio.timeout`: it would count the time that the step spends waiting for its store.
    task = asyncio.ensure_future(caught(work))
    while not task.done():
        try:
            if not await wait_within_limit(task, seconds=limit):
                break
        except asyncio.CancelledError:
            task.cancel()  # the body ends what it holds, and may still report
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is None:
        # It had to go to its end, and did: a tool whose result is in hand must not look lost.
        return task.result()
    raise ApplicationError(f"the step worked for more than {limit:g} s", type=TIMED_OUT)


def _quiet(words: str, kind: str, *, non_retryable: bool = False) -> ApplicationError:
    """An error that is told in one line: the SDK writes a traceback for all that are not benign.

    A step that waits, or that the server gave up, is nothing of ours that broke. After a reset of
    many runs, or in an outage, tracebacks would bury the lines that say so.
    """
    activity.logger.warning("%s: %s", kind, " ".join(words.split())[:MESSAGE_LIMIT])
    return ApplicationError(
        words[:MESSAGE_LIMIT],
        type=kind,
        category=ApplicationErrorCategory.BENIGN,
        non_retryable=non_retryable,
    )


def _shutdown_error(why: str = "") -> ApplicationError:
    """The error of a step whose worker was stopped on purpose.

    If attempts are limited, the step ends and the workflow schedules it again, so that the stop
    does not count as one of them.
    """
    policy = activity.info().retry_policy
    counted = policy is not None and policy.maximum_attempts != FOR_EVER
    return _quiet(f"the worker was shut down{why}", WORKER_SHUTDOWN, non_retryable=counted)


def unreadable(error: Exception) -> ApplicationError:
    """The error for a value that cannot be read or encoded; retrying would not help."""
    return ApplicationError(
        f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT],
        type="unreadable_value",
        non_retryable=True,
    )


def model_failure(failure: ModelFailure, *, pause_s: float | None, fits: bool) -> ApplicationError:
    """The error of a failed model attempt, with what it spent; retried if waiting may help.

    Args:
        failure: how it failed, and what the call has spent so far.
        pause_s: seconds until the next attempt; None if there is none.
        fits: whether another attempt fits the reservation; if not, the workflow must reserve anew.
    """
    # A provider may quote a text that ends in half a character. No failure can carry that: it would
    # arrive without its type, and the server would make attempts of the call for ever.
    texts = {name: to_encodable(text) for name, text in failure.facts if isinstance(text, str)}
    facts = failure.facts.model_copy(update=texts)
    failure = failure.model_copy(update={"facts": facts})
    pause = pause_s if facts.retryable else None
    if not fits:
        failure = failure.model_copy(update={"again_after_s": pause})
    again = pause is not None and fits
    kind = f"model_{facts.kind}"
    # One line: what a provider says needs no traceback, which the SDK would write for each attempt.
    # It writes none for a benign failure.
    activity.logger.warning("%s: %s", kind, " ".join(facts.message.split())[:MESSAGE_LIMIT])
    return ApplicationError(
        facts.message[:MESSAGE_LIMIT],
        failure,
        type=kind,
        category=ApplicationErrorCategory.BENIGN,
        # When the reservation is used up, the retry belongs to the workflow, which alone can
        # reserve more.
        non_retryable=not again,
        next_retry_delay=timedelta(seconds=pause) if pause is not None and fits else None,
    )


def _application_error(error: PerdureError) -> ApplicationError:
    if isinstance(error, StoreAway):
        return _quiet(str(error), error.code)
    retried = isinstance(error, StoreError | ServiceUnavailable | HookFailed)
    return ApplicationError(
        str(error)[:MESSAGE_LIMIT],
        type=error.code,
        non_retryable=not retried or isinstance(error, NEVER_RETRIED),
    )
