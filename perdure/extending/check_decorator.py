"""`@check`: a function from an output to a score becomes a check that rubrics can name.

The parameters that a rubric gives are read by the function's annotations, after the output itself.
"""

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import BaseModel, JsonValue, ValidationError

from perdure.domain.evaluation.checks import is_plugin_name
from perdure.domain.evaluation.evaluators import may_be_plugin
from perdure.domain.foundation.errors import InvalidInput, PerdureError
from perdure.domain.foundation.problems import problems_of
from perdure.domain.tools.definitions import ActivityTarget
from perdure.extending.decorating import decorated
from perdure.extending.function_parameters import arguments_model, hints_of, require_usable

CHECK = "check"
IN_FRONT = frozenset(
    {
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    }
)


class Adaptation(dict[str, JsonValue]):
    """The values that a hook computed for the iteration in hand; empty where nothing adapts.

    A parameter of a check that is annotated with this type gets them.
    """


class CheckFailed(PerdureError):
    """A check could not be run: that is no score."""

    code = "check_failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A score from 0 to 1; below 1.0, what was found against what is allowed, and the fix."""

    score: float
    detail: str = ""
    fix: str = ""

    @property
    def passed(self) -> bool:
        """Whether everything that the check demands is there."""
        return self.score >= 1.0


@dataclass(frozen=True, slots=True)
class CheckActivity:
    """The activity behind a check, and the time limit of one attempt in seconds."""

    target: ActivityTarget
    timeout_s: float


@dataclass(frozen=True, slots=True, eq=False)
class CustomCheck:
    """A function that checks outputs, under the name that rubrics use; callable as before.

    With an `activity`, the loop schedules it, and the function is never called here.
    """

    name: str
    function: Callable[..., object]
    parameters: type[BaseModel]
    adaptation_name: str | None = None
    activity: CheckActivity | None = None

    def __call__(self, output: str, /, **parameters: object) -> object:
        return self.function(output, **parameters)

    def verdict(
        self,
        output: str,
        given: Mapping[str, JsonValue],
        adaptation: Mapping[str, JsonValue] | None = None,
    ) -> object:
        """What the function says of an output, with the parameters that a rubric gives.

        Args:
            output: what is checked.
            given: the parameters, by name.
            adaptation: the values in force, for a function that asks for them.

        Raises:
            CheckFailed: the parameters do not fit the function.
        """
        read = self._read(given)
        # Not by `model_dump`, which makes plain mappings of the models that a function expects.
        values = {name: getattr(read, name) for name in type(read).model_fields}
        if self.adaptation_name is not None:
            values[self.adaptation_name] = Adaptation(adaptation or {})
        return self.function(output, **values)

    def arguments(
        self,
        output: str,
        given: Mapping[str, JsonValue],
        adaptation: Mapping[str, JsonValue] | None = None,
    ) -> tuple[JsonValue, ...]:
        """The arguments of the activity, in the order of its parameters; otherwise as `verdict`."""
        values: dict[str, JsonValue] = self._read(given).model_dump(mode="json")
        if self.adaptation_name is not None:
            values[self.adaptation_name] = dict(adaptation or {})
        # By the signature: an activity gets its arguments by place, and the model knows only names.
        _, *others = inspect.signature(self.function).parameters
        return (output, *(values[name] for name in others))

    def _read(self, given: Mapping[str, JsonValue]) -> BaseModel:
        try:
            return self.parameters.model_validate(dict(given))
        except ValidationError as error:
            wrong = "; ".join(str(problem) for problem in problems_of(error, dict(given)))
            raise CheckFailed(
                f"the check {self.name} was given wrong parameters: {wrong}"
            ) from None


@typing.overload
def check(function: Callable[..., object], /) -> CustomCheck: ...


@typing.overload
def check(*, name: str | None = None) -> Callable[[Callable[..., object]], CustomCheck]: ...


def check(
    function: object = None, /, *, name: str | None = None
) -> CustomCheck | Callable[[Callable[..., object]], CustomCheck]:
    """Make a function of an output a check.

    It returns True or False, a number from 0 to 1, such a number with words that say what is
    missing, or a `CheckResult`. What it raises leaves the output unscored.

    Args:
        function: the function, where the decorator stands without brackets.
        name: what rubrics call it, such as `acme.spelling`; the function's name when absent.

    Raises:
        InvalidInput: the name is malformed, a parameter has no annotation, or the function is
            asynchronous.
    """

    def decorate(decorated_function: Callable[..., object]) -> CustomCheck:
        return custom_check(decorated_function, name=name or decorated_function.__name__)

    return decorated("check", function, decorate)


def custom_check(function: Callable[..., object], *, name: str) -> CustomCheck:
    """A check made of a plain function; raises `InvalidInput` as `check` does."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(
            f"The check {name} is an asynchronous function, which nothing awaits.",
            cure="Write it with `def`, as checks run in a thread: asyncio.run(…) awaits in it. Or "
            "make it an activity, with perdure.temporal.activity_check.",
        )
    return named_check(function, name=name)


def named_check(function: Callable[..., object], *, name: str) -> CustomCheck:
    """The check of a function, plain or asynchronous; raises `InvalidInput` as `check` does."""
    if not is_plugin_name(name):
        raise InvalidInput(
            f"The check name {name!r} is malformed.",
            cure="Use lower-case words joined by dots, such as acme.spelling.",
        )
    if not may_be_plugin(name):
        raise InvalidInput(
            f"Rubrics cannot name the check {name!r}: they have a word of their own for it, or one "
            "that it looks like.",
            cure=f"Put a dot into its name, such as acme.{name}.",
        )
    read = parameters_of(function, name=name, noun="check", first="output")
    if CHECK in read.model.model_fields:
        raise InvalidInput(
            f"The parameter {CHECK!r} of check {name} cannot be given: in a rubric, `{CHECK}` is "
            "the name of the check.",
            cure="Call it otherwise.",
        )
    return CustomCheck(
        name=name, function=function, parameters=read.model, adaptation_name=read.adaptation_name
    )


@dataclass(frozen=True, slots=True)
class FunctionParameters:
    """The parameters of a function after its first; tasks do not give `adaptation_name`."""

    model: type[BaseModel]
    adaptation_name: str | None = None


def parameters_of(
    function: Callable[..., object], *, name: str, noun: str, first: str
) -> FunctionParameters:
    """Read the parameters of a check or hook.

    Args:
        function: the decorated function.
        name: the name that tasks use.
        noun: what it is, for people.
        first: what its first parameter takes, for people.

    Raises:
        InvalidInput: it has no first parameter, or another one has no annotation.
    """
    what = f"{noun} {name}"
    hints = hints_of(function, what=what)
    leading, *others = inspect.signature(function).parameters.values() or (None,)
    if leading is None or leading.kind not in IN_FRONT:
        raise InvalidInput(f"The {what} takes no {first}.", cure="Give it a first parameter.")
    fields: dict[str, tuple[object, object]] = {}
    adaptation_name: str | None = None
    for parameter in others:
        require_usable(
            parameter,
            hints,
            what=what,
            cure="Annotate it: values in a task are validated by the annotation.",
        )
        if hints[parameter.name] is Adaptation:
            adaptation_name = parameter.name
            continue
        empty = parameter.default is inspect.Parameter.empty
        fields[parameter.name] = (hints[parameter.name], ... if empty else parameter.default)
    model = arguments_model(re.sub(r"\W", "_", name), fields, what=what)
    return FunctionParameters(model, adaptation_name)
