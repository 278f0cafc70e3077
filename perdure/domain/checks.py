"""The parameters of deterministic checks; what runs them lies behind the activities.

Only what can be checked here without running anything is checked here: patterns and schemas are
compiled by the adapter when a run is created.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, model_validator

from perdure.domain.base import Frozen

MAX_PATTERN_CHARACTERS = 2_000

LengthUnit = Literal["chars", "words", "lines", "sentences"]


class ContainsCheck(Frozen):
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
        if not terms or "" in terms:
            raise ValueError("at least one term in all, any or none, and no empty ones")
        return self


class RegexCheck(Frozen):
    """A pattern (RE2 syntax) that must match at least `count` times; 0: not at all."""

    check: Literal["regex"]
    pattern: str = Field(min_length=1, max_length=MAX_PATTERN_CHARACTERS)
    count: int = Field(default=1, ge=0)


class LengthCheck(Frozen):
    """A length between `min` and `max`, both included."""

    check: Literal["length"]
    unit: LengthUnit
    min: int | None = Field(default=None, ge=0)
    max: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _in_order(self) -> "LengthCheck":
        if self.min is None and self.max is None:
            raise ValueError("min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("min at most as large as max")
        return self


class JsonSchemaCheck(Frozen):
    """The output is JSON that satisfies a schema."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    check: Literal["json_schema"]
    schema_: dict[str, JsonValue] = Field(alias="schema")


class EqualsCheck(Frozen):
    """The output equals a text (surrounding space aside), or as JSON another value."""

    check: Literal["equals"]
    value: JsonValue


Check = Annotated[
    ContainsCheck | RegexCheck | LengthCheck | JsonSchemaCheck | EqualsCheck,
    Field(discriminator="check"),
]
CHECK_KINDS = ("contains", "regex", "length", "json_schema", "equals")
