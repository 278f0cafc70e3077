"""Activities of your own in a loop: `activity_tool` makes one a tool, `activity_check` a check.

Each runs on the queue of your worker, with your options, and appears in the loop's history under
its own name. A plain function needs none of this: see `perdure.tool` and `perdure.check`.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

from temporalio.api.common.v1 import Payload
from temporalio.common import RetryPolicy
from temporalio.converter import DefaultPayloadConverter

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.tools.definitions import AccessClass, ActivityTarget
from perdure.embedding.activity_targets import (
    ONCE,
    Served,
    activity_definition,
    activity_target,
    placed_target,
)
from perdure.extending.check_decorator import CheckActivity, CustomCheck, named_check
from perdure.extending.tool_decorator import Tool, ToolContext, tool

A_TEXT = Payload(metadata={"encoding": b"json/plain"}, data=b'"x"')
# What the default converter says of a type that it has no rule for, whatever the value.
NO_RULE = "Unserializable type"


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
        InvalidInput: it is no activity, a parameter has no annotation, the name is malformed, or
            Temporal would refuse an option.
    """
    target = activity_target(
        function,
        instead="perdure.tool",
        task_queue=task_queue,
        start_to_close_timeout=start_to_close_timeout,
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


def activity_check(
    function: Callable[..., object],
    *,
    name: str | None = None,
    task_queue: str | None = None,
    start_to_close_timeout: timedelta = timedelta(seconds=30),
    schedule_to_close_timeout: timedelta | None = None,
    heartbeat_timeout: timedelta | None = None,
    retry_policy: RetryPolicy = ONCE,
) -> CustomCheck:
    """Make an activity a check; its first parameter takes the output, the others those of rubrics.

    It returns what a function with `@check` returns: True or False, a number from 0 to 1, such a
    number with words that say what is missing, or a `CheckResult`. If it fails, the output stays
    unscored.

    Args:
        function: with `@activity.defn`; a method of an object too.
        name: what rubrics call it; the activity's type, in lower case, when absent.
        task_queue: where it runs; None is the queue of the worker that has it.
        start_to_close_timeout: of one attempt.
        schedule_to_close_timeout: of all attempts, and the wait for a worker; None for no limit.
        heartbeat_timeout: after which a silent attempt counts as lost.
        retry_policy: by default it runs once.

    Raises:
        InvalidInput: it is no activity, a parameter has no annotation, the name is malformed, or
            Temporal would refuse an option.
    """
    target = activity_target(
        function,
        instead="perdure.check",
        task_queue=task_queue,
        start_to_close_timeout=start_to_close_timeout,
        schedule_to_close_timeout=schedule_to_close_timeout,
        heartbeat_timeout=heartbeat_timeout,
        retry_policy=retry_policy,
    )
    made = named_check(function, name=name or target.type.lower())
    return replace(made, activity=CheckActivity(target, start_to_close_timeout.total_seconds()))


def placed_check(made: CustomCheck, served: Served) -> CustomCheck:
    """The check with the queue of the worker that has its activity; other checks are unchanged.

    Raises:
        InvalidInput: no worker has the activity.
    """
    if made.activity is None:
        return made
    known = placed_target(
        made.activity.target, served, what=f"the check {made.name}", maker=activity_check.__name__
    )
    return replace(made, activity=replace(made.activity, target=known))


def require_readable(
    brought: Iterable[Tool[..., object] | CustomCheck], queue: str, served: frozenset[str]
) -> None:
    """Refuse activities with a parameter that a worker cannot read by Temporal's default rules.

    Args:
        brought: tools and checks; those that are no activity of the worker are passed over.
        queue: the worker's queue.
        served: the types of its activities.

    Raises:
        InvalidInput: names the parameter, the type and what helps.
    """
    for one in brought:
        target, what = _activity_of(one)
        if target is not None and target.type in served and target.queue in {"", queue}:
            _require(one.function, what=f"{target.type}, which is {what}", queue=queue)


def _activity_of(one: Tool[..., object] | CustomCheck) -> tuple[ActivityTarget | None, str]:
    if isinstance(one, Tool):
        return one.fact.activity, f"the tool {one.fact.name}"
    return one.activity and one.activity.target, f"the check {one.name}"


def _require(function: Callable[..., object], *, what: str, queue: str) -> None:
    kinds: object = getattr(activity_definition(function), "arg_types", None)
    if not isinstance(kinds, list):
        return  # the SDK hands over the values as they are in JSON
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    for name, kind in zip(names, kinds, strict=False):
        wrong = unreadable_part(kind)
        if wrong is not None:
            raise InvalidInput(
                f"The parameter {name!r} of the activity {what}, takes {_said(kind, wrong)}, and "
                f"the worker of {queue} has Temporal's default data converter, which cannot make "
                "one from JSON.",
                cure="Connect its client with data_converter=pydantic_data_converter (of "
                "temporalio.contrib.pydantic), or let the activity take a text or a number; an "
                "enumeration may be a class …(str, Enum).",
            )


def unreadable_part(kind: object, seen: tuple[object, ...] = ()) -> type | None:
    """The first type within a type that the default converter cannot make from JSON."""
    # A type may hold itself, as a tree does.
    if kind in seen:
        return None
    if isinstance(supertype := getattr(kind, "__supertype__", None), type):
        return unreadable_part(supertype, seen)
    if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind):
        inner: tuple[object, ...] = tuple(typing.get_type_hints(kind).values())
    elif typing.get_origin(kind) is typing.Literal:
        return None
    else:
        inner = typing.get_args(kind)
    for part in inner:
        wrong = unreadable_part(part, (*seen, kind))
        if wrong is not None:
            return wrong
    if inner or not isinstance(kind, type):
        return None
    # Bytes are named: their error is that of `bytes("x")`, and does not speak of a rule.
    return kind if kind is bytes or _without_rule(kind) else None


def _without_rule(kind: type) -> bool:
    """Whether the converter refuses a type as such, and not only the value it is tried with."""
    try:
        DefaultPayloadConverter().from_payloads([A_TEXT], [kind])
    except Exception as error:
        # Anything else is said of the value: a date refuses "x", and reads what a loop sends.
        return NO_RULE in str(error)
    return False


def _said(kind: object, wrong: type) -> str:
    return wrong.__name__ if kind is wrong else f"a {wrong.__name__} within {_name(kind)}"


def _name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
