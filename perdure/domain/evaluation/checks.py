"""The parameters of deterministic checks; what runs them lies behind the activities.

Only what can be checked here without running anything is checked here: patterns and schemas are
compiled by the adapter when a run is created.
"""

import ast
import re
from dataclasses import dataclass
from typing import Annotated, Literal, TypeGuard

from pydantic import ConfigDict, Field, JsonValue, model_validator

from perdure.domain.budget.accounting import MOST
from perdure.domain.foundation.base import ActivityMessage, FrozenModel
from perdure.domain.tools.definitions import ActivityTarget


@dataclass(frozen=True, slots=True)
class Snippet:
    """Code that can be run, and the expression whose value is the verdict.

    `setup` is empty for an expression that stands alone.
    """

    setup: str
    verdict: str


def read_snippet(code: str) -> Snippet:
    """How a piece of code is to be run; of several functions the last one is asked.

    Raises:
        ValueError: it is neither an expression nor a function of the output; says where.
    """
    try:
        ast.parse(code.strip(), mode="eval")
    # The last two are what Python's parser raises for code that is nested too deep.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _function(code)
    # The line end keeps a comment at the end of the code from swallowing the bracket.
    return Snippet(setup="", verdict=f"({code.strip()}\n)")


def _function(code: str) -> Snippet:
    try:
        module = ast.parse(code)
    except SyntaxError as error:
        raise ValueError(f"Python that can be read (line {error.lineno}: {error.msg})") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"Python that can be read ({type(error).__name__})") from None
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    if not functions:
        raise ValueError("an expression over `output`, or a function: def check(output): ...")
    last = functions[-1]
    taken = [*last.args.posonlyargs, *last.args.args]
    required = len(taken) - len(last.args.defaults)
    called = f"{last.name}(output)"
    if required in {1, 2} and len(taken) > 1 and taken[1].arg == ADAPTATION:
        adapted = f"{last.name}(output, {ADAPTATION})"
        # A default of its own holds while nothing is in force.
        verdict = adapted if required == 2 else f"{adapted} if {ADAPTATION} else {called}"
        return Snippet(setup=code, verdict=verdict)
    if required == 1:
        return Snippet(setup=code, verdict=called)
    raise ValueError(
        f"a function of the output, or of the output and `{ADAPTATION}` ({last.name} takes others)"
    )


ADAPTATION = "adaptation"
PLUGIN_NAME = r"^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*$"
MAX_CODE_CHARACTERS = 10_000
MAX_PATTERN_CHARACTERS = 2_000

LengthUnit = Literal["chars", "words", "lines", "sentences"]


def is_plugin_name(name: object) -> TypeGuard[str]:
    """Whether plugins may use that name: lower-case words joined by dots."""
    # `match` would take a name with a line break at its end.
    return isinstance(name, str) and re.fullmatch(PLUGIN_NAME, name) is not None


class ContainsCheck(FrozenModel):
    """Terms that must occur: `all` each, `any` at least one, `none` not at all.

    Scores the share of demands met: every term of `all` and `none` is one, `any` together is one.
    """

    check: Literal["contains"]
    all: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    ignore_case: bool = True

    @model_validator(mode="after")
    def _demands_something(self) -> "ContainsCheck":
        terms = (*self.all, *self.any, *self.none)
        # The empty text is in every output.
        if not terms or "" in terms:
            raise ValueError("at least one term in all, any or none, and no empty ones")
        return self


class RegexCheck(FrozenModel):
    """A pattern (RE2 syntax) that must match at least `count` times; 0: not at all."""

    check: Literal["regex"]
    pattern: str = Field(min_length=1, max_length=MAX_PATTERN_CHARACTERS)
    count: int = Field(default=1, ge=0, le=MOST)


class LengthCheck(FrozenModel):
    """A length between `min` and `max`, both included."""

    check: Literal["length"]
    unit: LengthUnit
    min: int | None = Field(default=None, ge=0, le=MOST)
    max: int | None = Field(default=None, ge=0, le=MOST)

    @model_validator(mode="after")
    def _in_order(self) -> "LengthCheck":
        if self.min is None and self.max is None:
            raise ValueError("min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("min at most as large as max")
        return self


class JsonSchemaCheck(FrozenModel):
    """The output is JSON that satisfies a schema."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    check: Literal["json_schema"]
    schema_: dict[str, JsonValue] = Field(alias="schema")


class EqualsCheck(FrozenModel):
    """The output equals a text (surrounding space aside), or as JSON another value."""

    check: Literal["equals"]
    value: JsonValue


class PythonCheck(FrozenModel):
    """Python over the output, run without any access to the outside.

    `code` is an expression over the text `output`, or a function of it. True and False count as 1
    and 0, a number from 0 to 1 is the score; beside a score, words may say what is missing.
    """

    check: Literal["python"]
    code: str = Field(min_length=1, max_length=MAX_CODE_CHARACTERS)

    @model_validator(mode="after")
    def _readable(self) -> "PythonCheck":
        read_snippet(self.code)
        return self

    @property
    def snippet(self) -> Snippet:
        """The Python code to run."""
        return read_snippet(self.code)


class PluginCheck(FrozenModel):
    """A check that an installed package brings; every other field is a parameter of it."""

    model_config = ConfigDict(extra="allow")
    # Narrowed as pydantic's documentation shows; its base class says `dict | None`.
    __pydantic_extra__: dict[str, JsonValue]  # pyright: ignore[reportIncompatibleVariableOverride]

    check: Annotated[str, Field(pattern=PLUGIN_NAME, max_length=100)]

    @property
    def parameters(self) -> dict[str, JsonValue]:
        return dict(self.__pydantic_extra__)


class ActivityCheck(ActivityMessage):
    """One dimension that an activity scores: the loop schedules it with these arguments.

    `timeout_s` is that of one attempt.
    """

    dimension: str
    check: str
    activity: ActivityTarget
    timeout_s: float
    arguments: tuple[JsonValue, ...]


class ActivityVerdict(ActivityMessage):
    """What such an activity gave; `failed` says in words why it gave nothing."""

    value: JsonValue = None
    failed: str = ""


BuiltInCheck = ContainsCheck | RegexCheck | LengthCheck | JsonSchemaCheck | EqualsCheck
Check = BuiltInCheck | PythonCheck | PluginCheck
PURE_KINDS = ("contains", "regex", "length", "json_schema", "equals", "python")
