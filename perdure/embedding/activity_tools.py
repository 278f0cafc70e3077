"""`activity_tool`: an activity of your own becomes a tool that loops can call.

It runs on the queue of your worker, with your options, and appears in the loop's history under its
own name. A plain function needs none of this: see `perdure.tool`.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from temporalio.common import RetryPolicy

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.tools.definitions import AccessClass
from perdure.embedding.activity_targets import ONCE, Served, activity_target, placed_target
from perdure.extending.tool_decorator import Tool, ToolContext, tool


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
    target = activity_target(
        function,
        instead="perdure.tool",
        task_queue=task_queue,
        schedule_to_close_timeout=schedule_to_close_timeout,
        heartbeat_timeout=heartbeat_timeout,
        retry_policy=retry_policy,
    )
    made = tool(
        access=access,
        needs_approval=approve,
        timeout_s=start_to_close_timeout.total_seconds(),
        name=name or target.type.lower(),
    )(function)
    if made.context_name is not None:
        raise InvalidInput(
            f"The parameter {made.context_name!r} of {target.type} is a {ToolContext.__name__}.",
            cure="Ask activity.info() in an activity; the context belongs to plain functions.",
        )
    return replace(made, fact=made.fact.model_copy(update={"activity": target}))


def placed_tool(made: Tool[..., object], served: Served) -> Tool[..., object]:
    """The tool with the queue of the worker that has its activity; other tools are unchanged.

    Raises:
        InvalidInput: no worker has the activity.
    """
    target = made.fact.activity
    if target is None:
        return made
    known = placed_target(
        target, served, what=f"the tool {made.fact.name}", maker=activity_tool.__name__
    )
    return replace(made, fact=made.fact.model_copy(update={"activity": known}))
