"""Whether a worker can read the arguments of an activity that is a tool or a check.

A loop sends JSON, as any client does. What becomes of it is up to the data converter of the
worker: Temporal's default one makes dates and UUIDs of texts, but no `Decimal` and no plain `Enum`.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable

from temporalio.api.common.v1 import Payload
from temporalio.converter import DefaultPayloadConverter

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.tools.definitions import ActivityTarget
from perdure.embedding.activity_targets import activity_definition
from perdure.extending.check_decorator import CustomCheck
from perdure.extending.tool_decorator import Tool

A_TEXT = Payload(metadata={"encoding": b"json/plain"}, data=b'"x"')
# What the default converter says of a type that it has no rule for, whatever the value.
NO_RULE = "Unserializable type"


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
