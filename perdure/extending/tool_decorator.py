"""`@tool`: a typed function becomes a tool that loops can call.

The name, description and JSON Schema come from the function itself: its annotations, its defaults
and its Google-style docstring. The function stays callable as before.
"""

import inspect
import json
import math
import re
import typing
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, ParamSpec, TypeVar

from docstring_parser import ParseError
from docstring_parser.google import GoogleParser, Section, SectionType
from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import problems_of
from perdure.domain.tools.definitions import (
    DEFAULT_TIMEOUT_S,
    AccessClass,
    ToolDefinition,
    ToolGrant,
)
from perdure.extending.decorating import decorated
from perdure.extending.function_parameters import adapter, arguments_model, hints_of, require_usable
from perdure.extending.function_parameters import described as described_by

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Arguments = dict[str, JsonValue]
Mending = Callable[[Arguments], Arguments]

_NAME = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*")
# Other sections, such as examples, stay part of the description for the model.
_GOOGLE = GoogleParser(
    [
        Section("Args", "param", SectionType.MULTIPLE),
        Section("Returns", "returns", SectionType.SINGULAR),
        Section("Yields", "yields", SectionType.SINGULAR),
        Section("Raises", "raises", SectionType.SINGULAR),
    ]
)
# Under these words of JSON Schema stands data of the tool's author, and schemas by their names.
_DATA = frozenset({"default", "const", "enum", "examples", "discriminator"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Facts about the call; a parameter annotated with this type gets it and is not an argument.

    `idempotency_key` stays the same when a lost call is tried again. `stopping()` turns true when
    the deadline passed or the run was stopped: long synchronous work should look at it. `stage` is
    empty where an iteration has no stages.
    """

    run: str
    call_id: str
    idempotency_key: str
    grant: ToolGrant
    conversation: str = ""
    iteration: int = 0
    stage: str = ""
    stopping: Callable[[], bool] = field(default=lambda: False)


@dataclass(frozen=True, slots=True, eq=False)
class Tool(Generic[P, R_co]):
    """A function with its facts; call it as the function, or register it as a tool.

    `rehearsal` takes the same arguments, changes nothing, and raises what the call would raise; the
    text that it returns (such as a diff) is shown to the person who approves the call. What it
    `tells` are arguments that this text holds in full, so that they are not shown twice. `mending`
    rewrites the arguments that a model gave, before anything is checked, counted or approved.
    """

    fact: ToolDefinition
    function: Callable[P, R_co]
    arguments: type[BaseModel]
    context_name: str | None = None
    rehearsal: Callable[P, object] | None = None
    tells: tuple[str, ...] = ()
    mending: Mending | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.function(*args, **kwargs)

    def rehearsed(
        self, rehearsal: Callable[P, object], *, tells: tuple[str, ...] = ()
    ) -> "Tool[P, R_co]":
        """The tool with a look at its calls before anybody approves them."""
        return replace(self, rehearsal=rehearsal, tells=tells)

    def mended(self, mending: Mending) -> "Tool[P, R_co]":
        """The tool with arguments mended that models are known to get wrong.

        Args:
            mending: takes the arguments of a call as the model gave them, by name, and returns
                them as the tool takes them. It must be pure: the call is kept as it returns it.
        """
        return replace(self, mending=mending)


@typing.overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@typing.overload
def tool(
    *,
    access: AccessClass = "read",
    idempotent: bool = False,
    needs_approval: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    name: str | None = None,
    exclusive: bool = False,
    aliases: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: object = None,
    /,
    *,
    access: AccessClass = "read",
    idempotent: bool = False,
    needs_approval: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    name: str | None = None,
    exclusive: bool = False,
    aliases: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
) -> object:
    """Make a typed function, synchronous or asynchronous, a tool.

    Args:
        function: the function, where the decorator stands without brackets.
        access: what it touches: `read`, `write`, `execute`, `network` or `person`.
        idempotent: a repeat with the same arguments changes nothing more, so it may be retried.
        needs_approval: a person approves each call.
        timeout_s: deadline of a call in seconds.
        name: full name such as `texts.count`; the function's name when absent.
        exclusive: never run beside other calls of the same turn.
        aliases: other names that models use for it.
        tags: words that a task's `tools.filter` may go by.

    Raises:
        InvalidInput: a parameter has no annotation, or the name is malformed.
    """

    def decorate(plain: Callable[..., object]) -> Tool[..., object]:
        full_name = _name_of(plain, name)
        read = _signature(plain, full_name)
        fact = _fact(
            name=full_name,
            description=read.summary or full_name,
            parameters=read.schema,
            access=access,
            idempotent=idempotent,
            needs_approval=needs_approval,
            timeout_s=timeout_s,
            exclusive=exclusive,
            aliases=aliases,
            tags=tags,
        )
        return Tool(
            fact=fact, function=plain, arguments=read.arguments, context_name=read.context_name
        )

    return decorated("tool", function, decorate)


def _name_of(plain: Callable[..., object], name: object) -> str:
    """The tool's name; raises `InvalidInput` if it is malformed, or nothing could read results."""
    full_name = name or plain.__name__
    if not isinstance(full_name, str) or not _NAME.fullmatch(full_name):
        raise InvalidInput(
            f"The tool name {full_name!r} is malformed.",
            cure="Use lower-case words joined by dots, such as texts.count.",
        )
    if inspect.isasyncgenfunction(plain):
        raise InvalidInput(
            f"The tool {full_name} is an asynchronous generator, which nothing reads.",
            cure="Return a list instead of using `yield`.",
        )
    return full_name


def _fact(**fields: object) -> ToolDefinition:
    """The facts about a tool; raises `InvalidInput` if the decorator was given a wrong one."""
    try:
        fact = ToolDefinition.model_validate(fields)
    except ValidationError as error:
        told = problems_of(error, fields, names=ToolDefinition.model_fields)
        raise InvalidInput(
            f"The tool {fields['name']} is not described well: {'; '.join(map(str, told))}.",
            cure="Correct what stands in the brackets of @tool.",
        ) from None
    # This way round it also refuses NaN, which is neither above nor below.
    if not 0 < fact.timeout_s < math.inf:
        raise InvalidInput(
            f"The tool {fact.name} has a time limit of {fact.timeout_s:g} s; allowed: more than 0.",
            cure="Give timeout_s in seconds, or leave it out.",
        )
    return fact


@dataclass(frozen=True, slots=True)
class _Signature:
    """The facts about a tool in the signature and docstring of its function."""

    summary: str
    arguments: type[BaseModel]
    context_name: str | None
    schema: dict[str, JsonValue]


_signatures: dict[Hashable, _Signature] = {}
"""By code: tools that close over a store are made anew for each store, and read the same."""


def _signature(function: Callable[..., object], name: str) -> _Signature:
    documentation, what = inspect.getdoc(function) or "", f"tool {name}"
    key = (
        name,
        documentation,
        getattr(function, "__code__", function),
        # As types: where they are texts, a cell of a notebook that is run again has the same texts
        # for other types.
        tuple((k, _comparable(kind)) for k, kind in hints_of(function, what=what).items()),
        repr(inspect.signature(function)),
    )
    known = _signatures.get(key)
    if known is None:
        known = _signatures[key] = _read_signature(function, name, documentation)
    return known


def _comparable(annotation: object) -> Hashable:
    """A key that is equal for equal annotations, such as two `Annotated` with equal fields."""
    parts = typing.get_args(annotation)
    if parts:
        return (typing.get_origin(annotation), *(_comparable(part) for part in parts))
    return annotation if isinstance(annotation, type) else repr(annotation)


def _read_signature(function: Callable[..., object], name: str, documentation: str) -> _Signature:
    try:
        summary, described = read_docstring(documentation)
    except ParseError as error:
        raise InvalidInput(
            f"The docstring of tool {name} cannot be read: {error}",
            cure="Write each argument of its Args: section as `name: what it is`.",
        ) from error
    arguments, context_name = _argument_model(function, name, described=described)
    schema = described_by(
        lambda: _schema(arguments),
        {key: (one.annotation, None) for key, one in arguments.model_fields.items()},
        what=f"tool {name}",
        read=lambda one: adapter(one).json_schema(),
    )
    try:
        json.dumps(schema, allow_nan=False)
    except ValueError:
        raise InvalidInput(
            f"The tool {name} has a default that is no number of JSON, such as NaN.",
            cure="Take None or a finite number as the default.",
        ) from None
    return _Signature(summary, arguments, context_name, schema)


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description and the `Args:` section of a Google-style docstring.

    Raises:
        ParseError: a line of `Args:` has no colon.
    """
    read = _GOOGLE.parse(text)
    described = {one.arg_name: " ".join((one.description or "").split()) for one in read.params}
    return (read.description or "").strip(), described


def _argument_model(
    function: Callable[..., object], name: str, *, described: Mapping[str, str]
) -> tuple[type[BaseModel], str | None]:
    what = f"tool {name}"
    hints = hints_of(function, what=what)
    fields: dict[str, tuple[object, object]] = {}
    context_name: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        require_usable(
            parameter,
            hints,
            what=what,
            cure="Annotate it; the JSON Schema that models see comes from it.",
        )
        annotation = hints[parameter.name]
        if annotation is ToolContext:
            context_name = parameter.name
            continue
        fields[parameter.name] = _field(parameter, annotation, described.get(parameter.name))
    model = arguments_model(re.sub(r"\W", "_", name), fields, what=what)
    return model, context_name


def _field(
    parameter: inspect.Parameter, annotation: object, words: str | None
) -> tuple[object, object]:
    """The annotation and default of a parameter, with what the docstring says of it."""
    default: object = ... if parameter.default is inspect.Parameter.empty else parameter.default
    if not isinstance(default, FieldInfo):
        # Not `description=None`, which would hide the description of an annotation.
        detail = Field(default=default, description=words) if words else Field(default=default)
        return annotation, detail
    # The field itself, not a default; what it sets goes before what the annotation sets.
    if words:
        kind = typing.cast("type[object]", annotation)
        return typing.Annotated[kind, Field(description=words)], default
    return annotation, default


def _schema(arguments: type[BaseModel]) -> dict[str, JsonValue]:
    schema = TypeAdapter(dict[str, JsonValue]).validate_python(arguments.model_json_schema())
    return {key: _without_titles(value, key) for key, value in schema.items() if key != "title"}


def _without_titles(value: JsonValue, word: str = "") -> JsonValue:
    """Remove pydantic's generated titles: they repeat the names, and cost tokens.

    Args:
        value: a schema, or what stands in one.
        word: the word of JSON Schema that it stands under; empty for one that people chose.
    """
    if word in _DATA:
        return value
    if isinstance(value, list):
        return [_without_titles(item) for item in value]
    if not isinstance(value, dict):
        return value
    # A property may be called `title`, or `default`: there it is no word of JSON Schema.
    named = word in _NAMED
    return {
        key: _without_titles(item, "" if named else key)
        for key, item in value.items()
        if named or key != "title" or not isinstance(item, str)
    }
