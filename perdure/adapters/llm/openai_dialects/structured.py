"""Schemas of answers in OpenAI's form, or as words for a server without that feature."""

import json
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

# The API wants a name for each schema; nobody reads it.
ANSWER = "answer"
# Keywords whose values are schemas: a list of them, or a mapping by name.
_MANY = ("anyOf", "prefixItems")
_NAMED = ("properties", "$defs")
# The API has none of these in a strict schema, and refuses the whole call for one.
_NEVER_STRICT = frozenset({
    "allOf", "dependentRequired", "dependentSchemas", "else", "if", "not", "oneOf", "then",
})  # fmt: skip


def takes_strictly(schema: Mapping[str, JsonValue]) -> bool:
    """Whether a schema may be sent as strict: every object closed, all of its fields required.

    The API would refuse others as strict. They are sent unenforced, and our reader checks the
    reply against them.
    """
    for part in _parts(schema):
        fields = part.get("properties")
        kind = part.get("type")
        if part.keys() & _NEVER_STRICT:
            return False
        if fields is not None or "object" in (kind if isinstance(kind, list) else [kind]):
            named = fields if isinstance(fields, dict) else {}
            required = part.get("required")
            asked = required if isinstance(required, list) else []
            closed = part.get("additionalProperties") is False
            if not closed or any(name not in asked for name in named):
                return False
        elif part and not part.keys() & {"type", "enum", "const", "anyOf", "$ref", *_NAMED}:
            return False
    return schema.get("type") == "object" and "anyOf" not in schema  # allowed inside alone


def _parts(schema: Mapping[str, JsonValue]) -> Iterator[Mapping[str, JsonValue]]:
    yield schema
    inner: list[JsonValue] = [schema.get("items")]
    for keyword in _MANY:
        several = schema.get(keyword)
        inner += several if isinstance(several, list) else []
    for keyword in _NAMED:
        named = schema.get(keyword)
        inner += named.values() if isinstance(named, dict) else []
    for part in inner:
        if isinstance(part, dict):
            yield from _parts(part)


def in_prompt(schema: Mapping[str, JsonValue]) -> str:
    """The schema as a sentence of the prompt, for a server without structured output."""
    written = json.dumps(schema, ensure_ascii=False)
    return (
        f"Answer with one JSON object, without any other text, that matches this schema:\n{written}"
    )
