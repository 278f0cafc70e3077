"""The OpenAPI document: FastAPI's own, with specifications, problems and examples added."""

from collections.abc import Iterator, Mapping

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import JsonValue

from perdure.domain.installation.access import SCOPES
from perdure.domain.specs import RUN_SPEC
from perdure.interfaces.rest.error_responses import MEDIA_TYPE, Problem

Schema = dict[str, JsonValue]
REF = "#/components/schemas/{model}"
BEARER = "bearer"
START = "/api/v1/loops"
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
TOLD = (
    "Loops of language-model work: start, follow, steer, answer. Errors are problem documents "
    "(RFC 9457). Lists and counts come from an index that is seconds behind; one run is exact."
)
EXAMPLES: Schema = {
    "agent": {
        "summary": "A question with tools",
        "value": {"kind": "agent", "goal": "Name three trees that grow by the sea."},
    },
    "refine": {
        "summary": "A text that is refined until its checks pass",
        "value": {
            "kind": "refine",
            "goal": "Write a product text for a steel water bottle, at most 60 words.",
            "rubric": [
                {"name": "facts", "evaluator": {"check": "contains", "all": ["steel"]}},
                {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 60}},
            ],
            "refine": {"max_iterations": 3},
            "budget": {"cost_usd": 0.5},
            "metadata": {"label": "bottle"},
        },
    },
}
_FAILURES = {
    "400": "The request states its length in two ways.",
    "401": "No token, or one that is wrong, expired, replaced or revoked.",
    "403": "The token lacks a scope.",
    "404": "Not found.",
    "408": "The body came too slowly; send the request again.",
    "409": "The state forbids it; `state` names it.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "421": "The header `host` names another host.",
    "422": "The request is wrong; `errors` says where.",
    "429": "Too many requests; `retry-after` says how long to wait.",
    "500": "Something failed inside.",
    "503": "Server, store or worker is away; nothing was started.",
}


def describe(app: FastAPI, version: str) -> Schema:
    """Build the document of an application once."""
    if app.openapi_schema is None:
        app.openapi_schema = _described(app, version)
    return app.openapi_schema


def _described(app: FastAPI, version: str) -> Schema:
    whole: Schema = get_openapi(
        title="Perdure", version=version, description=TOLD, routes=app.routes
    )
    components = _block(whole, "components")
    schemas = _block(components, "schemas")
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    schemas["Problem"] = Problem.model_json_schema(ref_template=REF)
    schemas.update(_pop_definitions(schemas["Problem"]))
    spec: Schema = RUN_SPEC.json_schema(ref_template=REF)
    schemas.update(_pop_definitions(spec))
    schemas["RunSpec"] = spec
    components["securitySchemes"] = {
        BEARER: {
            "type": "http",
            "scheme": "bearer",
            "description": f"A token with scopes among {', '.join(SCOPES)}.",
        }
    }
    for path, operation in _operations(whole):
        if path not in OPEN_PATHS:
            operation["security"] = [{BEARER: []}]
        _failing(operation)
    _taking_specifications(whole)
    _linked(whole)
    _for_typed_languages(schemas)
    return _plainly_named(whole, schemas)


def _for_typed_languages(schemas: JsonValue) -> None:
    """Give integers their width: without it, Java and others generate 32 bits for them."""
    waiting = [schemas]
    while waiting:
        match waiting.pop():
            case dict() as inner:
                if inner.get("type") == "integer":
                    inner.setdefault("format", "int64")
                waiting.extend(inner.values())
            case list() as items:
                waiting.extend(items)
            case _:
                pass


def _plainly_named(whole: Schema, schemas: Schema) -> Schema:
    """The document with a plain name and a title of its own for each schema.

    Where classes share a name, the framework takes the path of their module into the name of the
    schema, which changes when code moves. Generators make one class for each title.
    """
    names = {name: _plain(name) for name in schemas}
    targets = {REF.format(model=old): REF.format(model=new) for old, new in names.items()}
    _block(whole, "components")["schemas"] = {
        new: {**_object(schemas[old]), "title": new} for old, new in names.items()
    }
    return _object(_retargeted(whole, targets))


def _plain(name: str) -> str:
    """`a__run__result__Artifact` becomes `ResultArtifact`, and `Budget-Input` `BudgetInput`."""
    *modules, own = name.split("__")
    return f"{modules[-1].title().replace('_', '') if modules else ''}{own.replace('-', '')}"


def _retargeted(value: JsonValue, targets: Mapping[str, str]) -> JsonValue:
    """The same value with other texts in place of the references that changed."""
    match value:
        case dict():
            return {name: _retargeted(inner, targets) for name, inner in value.items()}
        case list():
            return [_retargeted(inner, targets) for inner in value]
        case str():
            return targets.get(value, value)
        case _:
            return value


def _object(value: JsonValue) -> Schema:
    return value if isinstance(value, dict) else {}


def _pop_definitions(schema: JsonValue) -> Schema:
    """The inner definitions of a schema, taken out of it."""
    return _object(_object(schema).pop("$defs", {}))


def _operations(whole: Schema) -> Iterator[tuple[str, Schema]]:
    for path, item in _block(whole, "paths").items():
        for operation in _object(item).values():
            if isinstance(operation, dict):
                yield path, operation


def _failing(operation: Schema) -> None:
    problem: Schema = {MEDIA_TYPE: {"schema": {"$ref": REF.format(model="Problem")}}}
    responses = _block(operation, "responses")
    for status, told in _FAILURES.items():
        # What `/readyz` answers with 503 is no problem document.
        if status != "503" or status not in responses:
            responses[status] = {"description": told, "content": problem}


def _taking_specifications(whole: Schema) -> None:
    start = _block(_block(_block(whole, "paths"), START), "post")
    content = _block(_block(_block(start, "requestBody"), "content"), "application/json")
    content["schema"] = {"$ref": REF.format(model="RunSpec")}
    content["examples"] = EXAMPLES


def _linked(whole: Schema) -> None:
    """Links from a started run to the requests that act on it."""
    start = _block(_block(_block(whole, "paths"), START), "post")
    links: Schema = {}
    for path, operation in _operations(whole):
        if path.startswith(f"{START}/{{run}}"):
            target = operation["operationId"]
            given: Schema = {"run": "$response.body#/id"}
            links[str(target)] = {"operationId": target, "parameters": given}
    for status in ("200", "201"):
        _block(_block(start, "responses"), status)["links"] = links


def _block(value: Schema, name: str) -> Schema:
    return _object(value.setdefault(name, {}))
