"""Activities of the user's own workers: their type, their queue, and their options."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from temporalio.api.common.v1 import RetryPolicy as SentPolicy
from temporalio.common import RetryPolicy

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import format_value
from perdure.domain.tools.definitions import ActivityTarget

DEFINITION = "__temporal_activity_definition"
# Temporal's default is for ever, which would hold a loop on a call that a model got wrong.
ONCE = RetryPolicy(maximum_attempts=1)
Served = Iterable[tuple[str, frozenset[str]]]


def activity_type(function: object) -> str | None:
    """The name under which an activity is registered; None if it is no named activity."""
    name: object = getattr(activity_definition(function), "name", None)
    return name if isinstance(name, str) else None


def activity_definition(function: object) -> object:
    """What the SDK keeps of a function with `@activity.defn`; None if it is no activity."""
    definition: object = inspect.getattr_static(_function(function), DEFINITION, None)
    return definition


def activity_target(
    function: Callable[..., object],
    *,
    instead: str,
    task_queue: str | None,
    start_to_close_timeout: timedelta,
    schedule_to_close_timeout: timedelta | None,
    heartbeat_timeout: timedelta | None,
    retry_policy: RetryPolicy,
) -> ActivityTarget:
    """The type and options with which a loop schedules an activity.

    Args:
        function: a function or method with `@activity.defn`.
        instead: the decorator for plain functions, such as `perdure.tool`, for the error message.
        task_queue: the queue; None is the queue of the worker that has the activity.
        start_to_close_timeout: the time for one attempt; the tool or check keeps it.
        schedule_to_close_timeout: the time for all attempts and the wait for a worker; None for no
            limit.
        heartbeat_timeout: the time after which a silent attempt counts as lost.
        retry_policy: how often it is tried.

    Raises:
        InvalidInput: it is no activity with a name, or the server would refuse an option.
    """
    kind = activity_type(function)
    if kind is None:
        raise InvalidInput(
            f"{getattr(function, '__qualname__', function)} is no activity with a name.",
            cure=f"Decorate it with @activity.defn, or use {instead} for a plain function.",
        )
    times = {
        "start_to_close_timeout": start_to_close_timeout,
        "schedule_to_close_timeout": schedule_to_close_timeout,
        "heartbeat_timeout": heartbeat_timeout,
    }
    _require_options(kind, times, retry_policy)
    return ActivityTarget(
        type=kind,
        queue=task_queue or "",
        schedule_to_close_s=_seconds(schedule_to_close_timeout),
        heartbeat_s=_seconds(heartbeat_timeout),
        attempts=retry_policy.maximum_attempts,
        first_pause_s=retry_policy.initial_interval.total_seconds(),
        pause_factor=retry_policy.backoff_coefficient,
        longest_pause_s=_seconds(retry_policy.maximum_interval),
        never_retried=tuple(retry_policy.non_retryable_error_types or ()),
    )


def _require_options(
    kind: str, times: Mapping[str, timedelta | None], retry_policy: RetryPolicy
) -> None:
    # Here, since a loop that schedules such an activity fails its workflow task for ever.
    for name, time in times.items():
        # To the server 0 is no limit, and it wants one of each attempt.
        least = timedelta.resolution if name == "start_to_close_timeout" else timedelta(0)
        if time is not None and time < least:
            raise InvalidInput(
                f"The activity {kind} has {name}={format_value(time)}; allowed: more than 0.",
                cure=f"Give {name} as a timedelta, or leave it out.",
            )
    try:
        retry_policy.apply_to_proto(SentPolicy())
    except ValueError as error:
        raise InvalidInput(
            f"The activity {kind} has {retry_policy}, which Temporal refuses: {error}.",
            cure="Correct its retry_policy, or leave it out.",
        ) from error


def placed_target(
    target: ActivityTarget, served: Served, *, what: str, maker: str
) -> ActivityTarget:
    """The target with the queue of the worker that has it; one that names a queue is unchanged.

    Args:
        target: the activity.
        served: the queues of the workers, each with its activity types.
        what: a description for people, such as `the tool refund`.
        maker: the function that takes `task_queue`, for the error message.

    Raises:
        InvalidInput: no worker has the activity.
    """
    if target.queue:
        return target
    queue = next((one for one, types in served if target.type in types), None)
    if queue is None:
        raise InvalidInput(
            f"No worker has the activity {target.type!r}, which is {what}.",
            cure="Add it to the `activities` of the worker that starts first, or name its queue: "
            f"{maker}(…, task_queue=…).",
        )
    return target.model_copy(update={"queue": queue})


def _function(given: object) -> object:
    """The decorated function: that of a bound method, or the object itself if it is callable."""
    plain: object = getattr(given, "__func__", given)
    return plain if callable(plain) else given


def _seconds(time: timedelta | None) -> float | None:
    return None if time is None else time.total_seconds()
