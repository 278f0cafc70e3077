"""Which fields a specification may have at a place, read from its own JSON Schema."""

from collections.abc import Sequence
from functools import cache

from pydantic import JsonValue

from perdure.domain.specs import RUN_SPEC

Schema = dict[str, JsonValue]


def field_names(value: JsonValue, steps: Sequence[str | int]) -> list[str]:
    """The names of the fields that the block at `steps` may have, sorted.

    Args:
        value: the whole specification; its kinds and checks say which of several forms is meant.
        steps: the way to the block, such as `("rubric", 0, "evaluator")`.
    """
    nodes = _narrowed(_alternatives(_schema()), value)
    for step in steps:
        value = _at(value, step)
        below = [inner for node in nodes for inner in _below(node, step)]
        nodes = _narrowed([alt for node in below for alt in _alternatives(node)], value)
    names = {name for node in nodes for name in _block(node, "properties")}
    return sorted(names)


@cache
def _schema() -> Schema:
    return RUN_SPEC.json_schema()


def _alternatives(node: Schema) -> list[Schema]:
    """The plain forms behind references and unions."""
    target = node.get("$ref")
    if isinstance(target, str):
        found = _block(_schema(), "$defs").get(target.rsplit("/", 1)[-1])
        return _alternatives(found) if isinstance(found, dict) else []
    for word in ("oneOf", "anyOf", "allOf"):
        inner = node.get(word)
        if isinstance(inner, list):
            return [alt for item in inner if isinstance(item, dict) for alt in _alternatives(item)]
    return [node]


def _narrowed(nodes: list[Schema], value: JsonValue) -> list[Schema]:
    """Those forms whose tag (`kind`, `check`, `type`) the value has; all when it has none."""
    if not isinstance(value, dict):
        return nodes
    tagged = [node for node in nodes if _is_tagged(node, value)]
    return tagged or nodes


def _is_tagged(node: Schema, value: dict[str, JsonValue]) -> bool:
    tags = {
        name: field["const"]
        for name, field in _block(node, "properties").items()
        if isinstance(field, dict) and "const" in field
    }
    return bool(tags) and all(value.get(name) == tag for name, tag in tags.items())


def _below(node: Schema, step: str | int) -> list[Schema]:
    if isinstance(step, int):
        found = node.get("items")
    else:
        found = _block(node, "properties").get(step, node.get("additionalProperties"))
    return [found] if isinstance(found, dict) else []


def _block(node: Schema, name: str) -> Schema:
    found = node.get(name)
    return found if isinstance(found, dict) else {}


def _at(value: JsonValue, step: str | int) -> JsonValue:
    match value, step:
        case dict(), str():
            return value.get(step)
        case list(), int() if step < len(value):
            return value[step]
        case _:
            return None
