"""Activities of somebody else's worker: which they are, where they are served, how they are run."""

import inspect
from collections.abc import Callable, Iterable
from datetime import timedelta

from temporalio.common import RetryPolicy

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.tools.definitions import ActivityTarget

DEFINITION = "__temporal_activity_definition"
ONCE = RetryPolicy(maximum_attempts=1)
Served = Iterable[tuple[str, frozenset[str]]]


def activity_type(function: object) -> str | None:
    """The name under which an activity is registered; None for what has none."""
    definition: object = inspect.getattr_static(_function(function), DEFINITION, None)
    name: object = getattr(definition, "name", None)
    return name if isinstance(name, str) else None


def activity_target(
    function: Callable[..., object],
    *,
    instead: str,
    task_queue: str | None,
    schedule_to_close_timeout: timedelta | None,
    heartbeat_timeout: timedelta | None,
    retry_policy: RetryPolicy,
) -> ActivityTarget:
    """What the loop schedules of an activity.

    Args:
        function: with `@activity.defn`; a method of an object too.
        instead: what takes a plain function, such as `perdure.tool`.
        task_queue: where it runs; None is the queue of the worker that has it.
        schedule_to_close_timeout: of all attempts, and the wait for a worker; None for no limit.
        heartbeat_timeout: after which a silent attempt counts as lost.
        retry_policy: how often it is tried.

    Raises:
        InvalidInput: it is no activity with a name.
    """
    kind = activity_type(function)
    if kind is None:
        raise InvalidInput(
            f"{getattr(function, '__qualname__', function)} is no activity with a name.",
            cure=f"Decorate it with @activity.defn, or use {instead} for a plain function.",
        )
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


def placed_target(
    target: ActivityTarget, served: Served, *, what: str, maker: str
) -> ActivityTarget:
    """The target with the queue of the worker that has it; one that names its queue stays.

    Args:
        target: the activity.
        served: the queues of the workers, each with the types of its activities.
        what: it is, for people, such as `the tool refund`.
        maker: the function that takes `task_queue`.

    Raises:
        InvalidInput: none of them has it.
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
    """Of a method the function, of an object that is called its `__call__`: what is decorated."""
    plain: object = getattr(given, "__func__", given)
    return plain if callable(plain) else given


def _seconds(time: timedelta | None) -> float | None:
    return None if time is None else time.total_seconds()
