"""JSON Schemas of users, with patterns in linear time and without remote references.

`jsonschema` matches patterns with `re`, which may backtrack for ever. The three keywords that match
patterns are replaced here; those that cannot be replaced are refused.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from pydantic import JsonValue
from referencing import Registry
from referencing.exceptions import Unresolvable

from perdure.adapters.checks.patterns import compile_pattern, matches
from perdure.adapters.checks.schema_references import require_references
from perdure.extending.check_decorator import CheckFailed

SHOWN_ERRORS = 3
SHOWN_CHARACTERS = 200
UNSUPPORTED = ("unevaluatedProperties", "$dynamicRef", "$recursiveRef")
# Under these stand names of the user's choice, each with a schema; and values that are data.
_NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_DATA = ("const", "enum", "default", "examples")

Schema = Mapping[str, JsonValue]
Subschema = Schema | bool


def _descend(
    validator: Validator, key: str, value: JsonValue, schema: Subschema
) -> Iterator[ValidationError]:
    wanted = schema if isinstance(schema, bool) else dict(schema)
    for error in validator.evolve(schema=wanted).iter_errors(value):
        error.path.appendleft(key)
        yield error


def _pattern(
    validator: Validator, pattern: str, instance: object, schema: Schema
) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not matches(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Validator, patterns: Mapping[str, Subschema], instance: object, schema: Schema
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        for key, value in instance.items():
            if matches(pattern, key):
                yield from _descend(validator, key, value, subschema)


def _additional_properties(
    validator: Validator, allowed: JsonValue, instance: object, schema: Schema
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for key in _surplus(instance, schema):
        if isinstance(allowed, dict):
            yield from _descend(validator, key, instance[key], allowed)
        elif allowed is False:
            yield ValidationError(f"the property {key!r} is not allowed")


def _surplus(instance: Mapping[str, object], schema: Schema) -> list[str]:
    named, patterns = schema.get("properties"), schema.get("patternProperties")
    known = named if isinstance(named, dict) else {}
    each = patterns if isinstance(patterns, dict) else {}
    return [
        key for key in instance if key not in known and not any(matches(one, key) for one in each)
    ]


def _unsupported(
    validator: Validator, value: JsonValue, instance: object, schema: Schema
) -> Iterator[ValidationError]:
    # Reached only where a $ref points into data, which is not looked through beforehand.
    raise _refusal(sorted(set(UNSUPPORTED) & schema.keys()))


def _refusal(keywords: Sequence[str]) -> CheckFailed:
    return CheckFailed(
        f"the JSON schema uses {', '.join(keywords)}, which checks do not support.",
        cure="Use properties, patternProperties and additionalProperties.",
    )


_SafeValidator = extend(
    Draft202012Validator,
    {
        **dict.fromkeys(UNSUPPORTED, _unsupported),
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    },
)


@lru_cache(maxsize=64)
def _validator(schema_text: str) -> Validator:
    schema = json.loads(schema_text)
    _check_keywords(schema)
    try:
        # Without formats: one of them asks whether a pattern compiles with `re`, and ours are RE2.
        Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))
    except SchemaError as error:
        raise CheckFailed(f"the JSON schema is not valid: {error.message}") from error
    require_references(schema)
    # An empty registry: a reference to elsewhere is an error, and nothing is fetched.
    return _SafeValidator(schema, registry=Registry())


def _check_keywords(schema: object) -> None:
    """Refuse keywords that would match patterns with `re`, and compile all patterns."""
    if isinstance(schema, list):
        for item in schema:
            _check_keywords(item)
    if not isinstance(schema, dict):
        return
    if refused := sorted(set(UNSUPPORTED) & schema.keys()):
        raise _refusal(refused)
    if isinstance(schema.get("pattern"), str):
        compile_pattern(schema["pattern"])
    if isinstance(schema.get("patternProperties"), dict):
        for pattern in schema["patternProperties"]:
            compile_pattern(pattern)
    for keyword, value in schema.items():
        named = keyword in _NAMED and isinstance(value, dict)
        if keyword not in _DATA:
            _check_keywords([*value.values()] if named else value)


def prepare_schema(schema: Mapping[str, JsonValue]) -> Validator:
    """A validator of a schema; raises `CheckFailed` if the schema cannot be used."""
    return _validator(json.dumps(schema, sort_keys=True))


def schema_errors(schema: Mapping[str, JsonValue], value: JsonValue) -> list[str]:
    """At most three errors of a value, each with its path; empty if it conforms."""
    validator = prepare_schema(schema)
    found: list[str] = []
    try:
        for error in validator.iter_errors(value):
            found.append(f"{_short(error.json_path)}: {_short(error.message)}")
            if len(found) == SHOWN_ERRORS:
                break
    except (Unresolvable, RecursionError) as error:
        raise CheckFailed(
            f"the JSON schema cannot be followed: {type(error).__name__}.",
            cure="Keep every $ref inside the schema, and nesting shallow.",
        ) from error
    except CheckFailed:
        raise
    except Exception as error:  # of the library, about a schema or value that it does not foresee
        raise CheckFailed(
            f"the JSON schema cannot be applied: {type(error).__name__}: {_short(str(error))}.",
            cure="Use plainer keywords in the schema.",
        ) from error
    return found


def _short(text: str) -> str:
    """Both ends of a long text: messages quote the value, and say at the end what is wrong."""
    half = SHOWN_CHARACTERS // 2
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: half - 1]}…{text[-half:]}"
