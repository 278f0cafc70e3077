"""Arguments that nobody thought about: what a dry run calls a tool with."""

from collections.abc import Mapping

from pydantic import JsonValue

_BY_TYPE: dict[str, JsonValue] = {
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "null": None,
}


def synthetic_arguments(parameters: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """One value for each property: its declared default, else its first enum, else by its type."""
    properties = parameters.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {name: synthetic_value(schema) for name, schema in properties.items()}


def synthetic_value(schema: JsonValue) -> JsonValue:
    """The plainest value of a schema: "", 0, false, [] or {} where it declares nothing."""
    if not isinstance(schema, Mapping):
        return None
    if "default" in schema:
        return schema["default"]
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return options[0]
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if kind == "array":
        return []
    if kind == "object":
        return {}
    return _BY_TYPE.get(kind) if isinstance(kind, str) else None
