"""`activity_tool`: an activity of your own becomes a tool that loops can call.

It runs on the queue of your worker, with your options, and appears in the loop's history under its
own name. A plain function needs none of this: see `perdure.tool`.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

from temporalio.common import RetryPolicy

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.tools.definitions import AccessClass, ActivityTarget
from perdure.tool_decorator import Tool, ToolContext, tool

DEFINITION = "__temporal_activity_definition"
ONCE = RetryPolicy(maximum_attempts=1)


def activity_tool(
    function: Callable[..., object],
    *,
    access: AccessClass = "read",
    approve: bool = False,
    name: str | None = None,
    task_queue: str | None = None,
    start_to_close_timeout: timedelta = timedelta(seconds=30),
    schedule_to_close_timeout: timedelta | None = None,
    heartbeat_timeout: timedelta | None = None,
    retry_policy: RetryPolicy = ONCE,
) -> Tool[..., object]:
    """Make an activity a tool; its schema comes from its signature and docstring.

    Args:
        function: with `@activity.defn`; a method of an object too.
        access: what it touches: `read`, `write`, `execute`, `network` or `person`.
        approve: a person approves each call.
        name: what models call it; the activity's type, in lower case, when absent.
        task_queue: where it runs; None is the queue of the worker that has it.
        start_to_close_timeout: of one attempt.
        schedule_to_close_timeout: of all attempts, and the wait for a worker; None for no limit.
        heartbeat_timeout: after which a silent attempt counts as lost.
        retry_policy: by default it runs once, and a model learns that it failed.

    Raises:
        InvalidInput: it is no activity, a parameter has no annotation, or the name is malformed.
    """
    kind = activity_type(function)
    if kind is None:
        raise InvalidInput(
            f"{getattr(function, '__qualname__', function)} is no activity with a name.",
            cure="Decorate it with @activity.defn, or use perdure.tool for a plain function.",
        )
    made = tool(
        access=access,
        needs_approval=approve,
        timeout_s=start_to_close_timeout.total_seconds(),
        name=name or kind.lower(),
    )(function)
    if made.context_name is not None:
        raise InvalidInput(
            f"The parameter {made.context_name!r} of {kind} is a {ToolContext.__name__}.",
            cure="Ask activity.info() in an activity; the context belongs to plain functions.",
        )
    target = ActivityTarget(
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
    return replace(made, fact=made.fact.model_copy(update={"activity": target}))


def activity_type(function: object) -> str | None:
    """The name under which an activity is registered; None for what has none."""
    definition: object = inspect.getattr_static(_function(function), DEFINITION, None)
    name: object = getattr(definition, "name", None)
    return name if isinstance(name, str) else None


def placed(
    made: Tool[..., object], served: Iterable[tuple[str, frozenset[str]]]
) -> Tool[..., object]:
    """The tool with the queue of the worker that has its activity.

    Args:
        made: any tool; one that is no activity, or names its queue, stays as it is.
        served: the queues of the workers, each with the types of its activities.

    Raises:
        InvalidInput: none of them has it.
    """
    target = made.fact.activity
    if target is None or target.queue:
        return made
    queue = next((one for one, types in served if target.type in types), None)
    if queue is None:
        raise InvalidInput(
            f"No worker has the activity {target.type!r}, which is the tool {made.fact.name}.",
            cure="Add it to the `activities` of the worker that starts first, or name its queue: "
            "activity_tool(…, task_queue=…).",
        )
    known = target.model_copy(update={"queue": queue})
    return replace(made, fact=made.fact.model_copy(update={"activity": known}))


def _function(given: object) -> object:
    """Of a method the function, of an object that is called its `__call__`: what is decorated."""
    plain: object = getattr(given, "__func__", given)
    return plain if callable(plain) else given


def _seconds(time: timedelta | None) -> float | None:
    return None if time is None else time.total_seconds()
