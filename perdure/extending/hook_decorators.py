"""`@adapt`, `@on_iteration`, `@on_end`: functions that a run calls between its iterations.

A task names them under `hooks`. Parameters after the first are read by their annotations from
`parameters` of the task.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import overload

from pydantic import BaseModel, JsonValue, ValidationError

from perdure.domain.evaluation.checks import is_plugin_name
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import problems_of
from perdure.domain.run.hooks import EndFacts, HookKind, IterationFacts
from perdure.extending.check_decorator import parameters_of
from perdure.extending.decorating import decorated

Decorator = Callable[[Callable[..., object]], "Hook"]


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    """A function that runs call, under the name that tasks use; callable as before."""

    kind: HookKind
    name: str
    function: Callable[..., object]
    parameters: type[BaseModel]

    def __call__(self, facts: IterationFacts | EndFacts, /, **parameters: object) -> object:
        return self.function(facts, **parameters)

    def read(self, given: Mapping[str, JsonValue]) -> dict[str, object]:
        """The parameters of a task as the function takes them.

        Raises:
            InvalidInput: they do not fit the function.
        """
        try:
            read = self.parameters.model_validate(dict(given))
        except ValidationError as error:
            wrong = "; ".join(str(problem) for problem in problems_of(error, dict(given)))
            raise InvalidInput(
                f"the hook {self.name} was given wrong parameters: {wrong}"
            ) from None
        # Not by `model_dump`, which makes plain mappings of the models that a function expects.
        return {name: getattr(read, name) for name in type(read).model_fields}


@overload
def adapt(function: Callable[..., object], /) -> Hook: ...


@overload
def adapt(*, name: str | None = None) -> Decorator: ...


def adapt(function: object = None, /, *, name: str | None = None) -> Hook | Decorator:
    """Make a function of an iteration the computation of what changes before the next one.

    It takes `IterationFacts` and returns the values that are in force from then on, as a mapping
    that JSON can write.

    Args:
        function: the function, where the decorator stands without brackets.
        name: what tasks call it, such as `acme.widen`; the function's name when absent.

    Raises:
        InvalidInput: the name is malformed, or a parameter has no annotation.
    """
    return _decorator("adapt", function, name)


@overload
def on_iteration(function: Callable[..., object], /) -> Hook: ...


@overload
def on_iteration(*, name: str | None = None) -> Decorator: ...


def on_iteration(function: object = None, /, *, name: str | None = None) -> Hook | Decorator:
    """Make a function of `IterationFacts` one that is called after each iteration; as `adapt`."""
    return _decorator("on_iteration", function, name)


@overload
def on_end(function: Callable[..., object], /) -> Hook: ...


@overload
def on_end(*, name: str | None = None) -> Decorator: ...


def on_end(function: object = None, /, *, name: str | None = None) -> Hook | Decorator:
    """Make a function of `EndFacts` one that is called when a run ends; as `adapt`."""
    return _decorator("on_end", function, name)


def _decorator(kind: HookKind, given: object, name: str | None) -> Hook | Decorator:
    def decorate(function: Callable[..., object]) -> Hook:
        return hook_of(kind, function, name=name or function.__name__)

    return decorated(kind, given, decorate)


def hook_of(kind: HookKind, function: Callable[..., object], *, name: str) -> Hook:
    """A hook made of a plain function; raises `InvalidInput` as `adapt` does."""
    if not is_plugin_name(name):
        raise InvalidInput(
            f"The hook name {name!r} is malformed.",
            cure="Use lower-case words joined by dots, such as acme.widen.",
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(
            f"The hook {name} is a generator, of which nothing would run.",
            cure="Write it without `yield`.",
        )
    read = parameters_of(function, name=name, noun="hook", first="facts")
    if read.adaptation_name is not None:
        raise InvalidInput(
            f"The hook {name} asks for an Adaptation, which only checks are given.",
            cure="Read `adaptation` of its facts.",
        )
    return Hook(kind=kind, name=name, function=function, parameters=read.model)
