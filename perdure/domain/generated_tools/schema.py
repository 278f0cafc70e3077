"""The schema stage: the declared JSON schema is plain, and says what the handler takes.

Only keywords whose checking takes time in proportion to the arguments are taken: no patterns, no
references, no conditions.
"""

import ast
import math
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from perdure.domain.generated_tools.draft import ToolDraft
from perdure.domain.generated_tools.handler import Handler
from perdure.domain.generated_tools.rejections import ToolRefused, refused

KINDS = ("string", "integer", "number", "boolean", "array", "object", "null")
MOST_DEPTH = 8
_TEXTS = frozenset({"title", "description"})
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems"})
_KEYWORDS = _TEXTS | _NUMBERS | _COUNTS | {
    "type", "enum", "default", "examples", "items", "properties", "required",
    "additionalProperties",
}  # fmt: skip
_ANNOTATED: dict[str, frozenset[str]] = {
    "str": frozenset({"string"}),
    "int": frozenset({"integer"}),
    # JSON may write 1 for 1.0.
    "float": frozenset({"number", "integer"}),
    "bool": frozenset({"boolean"}),
    "list": frozenset({"array"}),
    "List": frozenset({"array"}),
    "tuple": frozenset({"array"}),
    "Sequence": frozenset({"array"}),
    "dict": frozenset({"object"}),
    "Dict": frozenset({"object"}),
    "Mapping": frozenset({"object"}),
    "None": frozenset({"null"}),
}
_ANYTHING = frozenset({"Any", "object"})


def schema_refusal(draft: ToolDraft, handler: Handler) -> ToolRefused | None:
    """Why schema and handler do not belong together, or None."""
    problem = next(_problems(draft.parameters, handler), None)
    return None if problem is None else refused("schema", 400, "schema", problem)


def _problems(schema: Mapping[str, JsonValue], handler: Handler) -> Iterator[str]:
    if schema.get("type") != "object":
        yield 'the schema of the arguments is {"type": "object", "properties": {…}}'
        return
    yield from _odd(schema, "schema", MOST_DEPTH)
    declared = _mapping(schema.get("properties"))
    required = schema.get("required")
    needed = set(map(str, required)) if isinstance(required, list) else set[str]()
    taken = {argument.arg for argument, _ in handler.arguments}
    for name in sorted(taken - declared.keys()):
        yield f"{handler.name} takes {name}, which the schema does not declare"
    for name in sorted(declared.keys() - taken):
        yield f"the schema declares {name}, which {handler.name} does not take"
    for argument, default in handler.arguments:
        # Only the first problem is taken, so this is reached only where both have all names.
        yield from _argument(argument, default, declared[argument.arg], needed)


def _argument(
    argument: ast.arg, default: ast.expr | None, schema: JsonValue, needed: set[str]
) -> Iterator[str]:
    name = argument.arg
    if default is None and name not in needed:
        yield f"{name} has no default, so the schema must list it as required"
    if default is not None and name in needed:
        yield f"{name} has a default, so the schema must not list it as required"
    if argument.annotation is None:
        yield f"{name} has no type annotation"
        return
    allowed = _kinds_of(argument.annotation)
    declared = _kinds(_mapping(schema))
    if allowed is None:
        return
    if not declared <= allowed:
        yield (
            f"{name} is annotated {ast.unparse(argument.annotation)[:60]}, and the schema says "
            f"{' or '.join(sorted(declared))}"
        )
    yield from _default(name, default, _mapping(schema))


def _default(name: str, default: ast.expr | None, schema: Mapping[str, JsonValue]) -> Iterator[str]:
    if "default" not in schema or default is None:
        return
    try:
        own: object = ast.literal_eval(default)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return
    if own != schema["default"]:
        yield f"{name} has the default {str(own)[:40]!r}, and the schema says otherwise"


def _kinds_of(annotation: ast.expr) -> frozenset[str] | None:
    """The JSON types that an annotation takes; None for one that takes anything."""
    match annotation:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return None if name in _ANYTHING else _ANNOTATED.get(name, frozenset())
        case ast.Constant(value=None):
            return _ANNOTATED["None"]
        case ast.Constant(value=str(text)):
            return _of_text(text)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _either(_kinds_of(left), _kinds_of(right))
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
            return _subscripted(name, inner)
        case _:
            return frozenset()


def _of_text(text: str) -> frozenset[str] | None:
    try:
        return _kinds_of(ast.parse(text, mode="eval").body)
    # Hostile text makes the parser raise any of these; none may end the step.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()


def _subscripted(name: str, inner: ast.expr) -> frozenset[str] | None:
    options = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
    match name:
        case "Optional":
            return _either(_kinds_of(inner), _ANNOTATED["None"])
        case "Union":
            kinds: frozenset[str] | None = frozenset()
            for option in options:
                kinds = _either(kinds, _kinds_of(option))
            return kinds
        case "Literal":
            values = [option.value for option in options if isinstance(option, ast.Constant)]
            return frozenset(kind for value in values for kind in _kinds_of_value(value))
        case _:
            return _ANNOTATED.get(name, frozenset())


def _either(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other


def _kinds(schema: Mapping[str, JsonValue]) -> frozenset[str]:
    """The JSON types that a schema allows."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return frozenset({kind})
    if isinstance(kind, list):
        return frozenset(map(str, kind))
    options = schema.get("enum")
    if isinstance(options, list):
        return frozenset(kind for option in options for kind in _kinds_of_value(option))
    return frozenset(KINDS)


def _kinds_of_value(value: object) -> tuple[str, ...]:
    match value:
        # Before the numbers: bool is an int.
        case bool():
            return ("boolean",)
        case int():
            return ("integer",)
        case float():
            return ("number",)
        case str():
            return ("string",)
        case None:
            return ("null",)
        case list():
            return ("array",)
        case _:
            return ("object",)


def _odd(schema: Mapping[str, JsonValue], path: str, depth: int) -> Iterator[str]:
    """What a schema holds that is not taken, or has another form than it should."""
    if depth == 0:
        yield f"{path} is nested more than {MOST_DEPTH} levels deep"
        return
    for word, value in schema.items():
        if word not in _KEYWORDS:
            yield f"{path}: {word[:40]!r} is not taken here; use {', '.join(sorted(_KEYWORDS))}"
        elif not _fits(word, value):
            yield f"{path}: the value of {word!r} has the wrong form"
    items = schema.get("items")
    if isinstance(items, Mapping):
        yield from _odd(items, f"{path}.items", depth - 1)
    for name, inner in _mapping(schema.get("properties")).items():
        if not isinstance(inner, Mapping):
            yield f"{path}.{name} is no schema"
        else:
            yield from _odd(inner, f"{path}.{name}", depth - 1)
    yield from _enum_and_default(schema, path)


def _enum_and_default(schema: Mapping[str, JsonValue], path: str) -> Iterator[str]:
    kinds = _kinds(schema)
    # A whole number is a number.
    loose = kinds | ({"integer"} if "number" in kinds else set())
    for word in ("default", "enum"):
        if word not in schema:
            continue
        values = schema[word] if word == "enum" else [schema[word]]
        for value in values if isinstance(values, list) else []:
            if not loose.issuperset(_kinds_of_value(value)):
                yield f"{path}: a value of {word!r} is not of the declared type"


def _fits(word: str, value: JsonValue) -> bool:
    if word in _TEXTS:
        return isinstance(value, str)
    if word in _NUMBERS:
        return isinstance(value, int | float) and not isinstance(value, bool) and _finite(value)
    if word in _COUNTS:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    match word:
        case "type":
            named = value if isinstance(value, list) else [value]
            return bool(named) and all(one in KINDS for one in named)
        case "enum":
            return isinstance(value, list) and bool(value)
        case "examples":
            return isinstance(value, list)
        case "required":
            return isinstance(value, list) and all(isinstance(one, str) for one in value)
        case "items" | "properties":
            return isinstance(value, Mapping)
        case "additionalProperties":
            return isinstance(value, bool)
        case _:
            return True


def _finite(value: float) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, Mapping) else {}
