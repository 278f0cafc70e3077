"""Checks a call's arguments against the tool's JSON Schema, with errors a model can act on."""

from collections.abc import Iterator, Mapping

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError as SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from pydantic import BaseModel, JsonValue, ValidationError

from perdure.adapters.checks.schemas import Schema, prepare_schema
from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.foundation.problems import allowed_in_words, format_value, path_of
from perdure.domain.tools.definitions import ToolDefinition
from perdure.extending.check_decorator import CheckFailed
from perdure.extending.foreign_code import contained

# Enough to correct a call; a long list would only fill the conversation.
_SHOWN_PROBLEMS = 5
_SHOWN_VALUE = 80


def check(fact: ToolDefinition, arguments: Mapping[str, JsonValue], *, made: bool = False) -> None:
    """Raise `ToolFailure` (`invalid_arguments`) that names each problem and its place.

    Patterns are left to `parse`: those of a tool's author are Rust's, and `re` knows other words
    and may backtrack for ever.

    `made`: a model wrote the schema, so its patterns are matched here, in linear time.
    """
    validator = _made(fact) if made else _WithoutPatterns(dict(fact.parameters))
    problems = sorted(validator.iter_errors(dict(arguments)), key=lambda found: found.json_path)
    if problems:
        raise arguments_error(fact, [_sentence(problem) for problem in problems])


def _unmatched(
    _validator: Validator, _keyword: JsonValue, _instance: object, _schema: Schema
) -> Iterator[SchemaError]:
    return iter(())


def _additional_properties(
    validator: Validator, allowed: JsonValue, instance: object, schema: Schema
) -> Iterator[SchemaError]:
    # Which properties are additional depends on the patterns of the others.
    if "patternProperties" not in schema:
        yield from _ADDITIONAL(validator, allowed, instance, schema)


_ADDITIONAL = Draft202012Validator.VALIDATORS["additionalProperties"]
_WithoutPatterns = extend(
    Draft202012Validator,
    {
        "pattern": _unmatched,
        "patternProperties": _unmatched,
        "additionalProperties": _additional_properties,
    },
)


def _made(fact: ToolDefinition) -> Validator:
    try:
        return prepare_schema(fact.parameters)
    except CheckFailed as error:
        raise ToolFailure(
            f"The parameters of {fact.name} cannot be checked: {error}", reason="failed"
        ) from error


def parse(
    fact: ToolDefinition, model: type[BaseModel], arguments: Mapping[str, JsonValue]
) -> BaseModel:
    """The arguments as typed values; this also checks what JSON Schema cannot express."""
    try:
        with contained():  # validators of the tool's author
            return model.model_validate(dict(arguments))
    except ValidationError as error:
        problems = [
            f"{path_of('', detail['loc']) or 'arguments'}: found {format_value(detail['input'])}; "
            f"allowed: {allowed_in_words(detail)}"
            for detail in error.errors(include_url=False)
        ]
        raise arguments_error(fact, problems) from error


def arguments_error(fact: ToolDefinition, problems: list[str]) -> ToolFailure:
    """The failure that lists what is wrong with the arguments."""
    more = len(problems) - _SHOWN_PROBLEMS
    listed = "; ".join(problems[:_SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
    return ToolFailure(
        f"The arguments of {fact.name} are not valid: {listed}. "
        f"It takes: {_signature(fact)}. Correct them and call again.",
        reason="invalid_arguments",
    )


def _sentence(problem: SchemaError) -> str:
    path = problem.json_path.removeprefix("$.").removeprefix("$") or "arguments"
    text = problem.message
    if len(text) > 3 * _SHOWN_VALUE:
        # The value comes first in the words of the library, and the rule at their end.
        text = f"{text[:_SHOWN_VALUE]} … {text[-_SHOWN_VALUE:]}"
    return f"{path}: {text}"


def _signature(fact: ToolDefinition) -> str:
    properties = fact.parameters.get("properties")
    required = fact.parameters.get("required")
    names = list(properties) if isinstance(properties, dict) else []
    needed = required if isinstance(required, list) else []
    return ", ".join(name if name in needed else f"{name}?" for name in names) or "no arguments"
