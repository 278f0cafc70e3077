"""The one place where Perdure's errors become Temporal's.

The type is the error's stable code; details carry what the workflow needs to settle the budget;
whether an attempt is repeated, and when, is decided here and nowhere else.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import wraps
from typing import ParamSpec, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.beating import cancelled_by_shutdown, heartbeats
from perdure.domain.errors import (
    InvalidInput,
    NotAllowed,
    NotFound,
    PerdureError,
    ServiceUnavailable,
    StoreError,
)
from perdure.domain.model_errors import ModelFacts, retry_delay
from perdure.domain.steps import ModelFailure
from perdure.domain.usage import Account

P = ParamSpec("P")
R = TypeVar("R")

MESSAGE_LIMIT = 2_000
WORKER_SHUTDOWN = "worker_shutdown"
UNREADABLE = (ValidationError, PydanticSerializationError, RecursionError, UnicodeError)
NEVER_RETRIED = (InvalidInput, NotAllowed, NotFound)


def translated(verb: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """Wrap an activity: heartbeats, and every Perdure error leaves it as an `ApplicationError`."""

    @wraps(verb)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            async with heartbeats():
                return await verb(*args, **kwargs)
        except asyncio.CancelledError:
            if not cancelled_by_shutdown():
                raise
            raise ApplicationError("the worker was shut down", type=WORKER_SHUTDOWN) from None
        except PerdureError as error:
            raise _application_error(error) from error
        except UNREADABLE as error:
            raise unreadable(error) from error

    return run


def unreadable(error: Exception) -> ApplicationError:
    """A value that cannot be read or encoded: it will not heal by doing the work again."""
    return ApplicationError(
        f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT],
        type="unreadable_value",
        non_retryable=True,
    )


def model_failure(
    facts: ModelFacts, account: Account, *, initial_s: float, maximum_s: float
) -> ApplicationError:
    """A failed model attempt, with its account, retried when waiting may heal it."""
    info = activity.info()
    # Seeded by what names the attempt: the same for a replayed test, different between runs.
    seed = zlib.crc32(f"{info.workflow_run_id}/{info.activity_id}/{info.attempt}".encode())
    jitter = 0.8 + 0.4 * (seed % 1000) / 1000
    delay = retry_delay(
        attempt=info.attempt,
        retry_after_s=facts.retry_after_s,
        initial_s=initial_s,
        maximum_s=maximum_s,
        jitter=jitter,
    )
    return ApplicationError(
        facts.message[:MESSAGE_LIMIT],
        ModelFailure(facts=facts, account=account),
        type=f"model_{facts.kind}",
        non_retryable=not facts.retryable,
        next_retry_delay=timedelta(seconds=delay) if facts.retryable else None,
    )


def _application_error(error: PerdureError) -> ApplicationError:
    retried = isinstance(error, StoreError | ServiceUnavailable)
    return ApplicationError(
        str(error)[:MESSAGE_LIMIT],
        type=error.code,
        non_retryable=not retried or isinstance(error, NEVER_RETRIED),
    )
