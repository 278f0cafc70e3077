"""A client that is made from the OpenAPI document alone leads a run through its life."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping

import httpx2
import pytest
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from rest import Rest

Answer = tuple[int, object]
Call = Callable[..., Awaitable[Answer]]


def made_client(document: Mapping[str, object], client: httpx2.AsyncClient) -> dict[str, Call]:
    """One function for each operation, by a name such as `post_loops_run_pause`.

    Arguments are the path's, `query`, `headers` and `body`. An answer must be one that the document
    names, with the fields that it names.
    """
    paths = document["paths"]
    assert isinstance(paths, dict)
    calls: dict[str, Call] = {}
    for path, item in paths.items():
        for method, operation in item.items():
            words = re.findall(r"[a-z]+", path.removeprefix("/api/v1"))
            calls["_".join((method, *words))] = _call(document, client, path, method, operation)
    return calls


def _call(
    document: Mapping[str, object],
    client: httpx2.AsyncClient,
    path: str,
    method: str,
    operation: Mapping[str, object],
) -> Call:
    async def call(
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        **names: str,
    ) -> Answer:
        answer = await client.request(
            method, path.format(**names), params=query, headers=headers, json=body
        )
        described = operation["responses"][str(answer.status_code)]  # type: ignore[index]
        kind = answer.headers.get("content-type", "").partition(";")[0]
        if not answer.content:
            return answer.status_code, None
        found = answer.json()
        _require_shape(document, described["content"][kind]["schema"], found)
        return answer.status_code, found

    return call


def _require_shape(document: Mapping[str, object], schema: object, found: object) -> None:
    """The whole answer is what its schema says."""
    from jsonschema import Draft202012Validator

    resource = Resource.from_contents(document, default_specification=DRAFT202012)
    registry = Registry().with_resource("urn:api", resource)
    assert isinstance(schema, dict)
    absolute = _absolute(schema)
    Draft202012Validator(absolute, registry=registry).validate(found)  # type: ignore[call-arg]


def _absolute(value: object) -> object:
    match value:
        case {"$ref": str(target)}:
            return {"$ref": f"urn:api{target}"}
        case dict():
            return {name: _absolute(inner) for name, inner in value.items()}
        case list():
            return [_absolute(inner) for inner in value]
        case _:
            return value


@pytest.fixture
async def api(rest: Rest) -> dict[str, Call]:
    document = (await rest.client.get("/api/v1/openapi.json")).json()
    return made_client(document, rest.client)


@pytest.mark.long
async def test_a_made_client_leads_a_run_through_its_life(api: dict[str, Call]) -> None:
    spec = {"kind": "agent", "goal": "say something", "learn": False}
    status, started = await api["post_loops"](body=spec, headers={"idempotency-key": "k"})
    assert status == 201 and isinstance(started, dict)
    run = started["id"]
    status, result = await api["get_loops_run_result"](run=run, query={"wait": "60"})
    assert status == 200 and isinstance(result, dict)
    assert result["output"] == "an answer"
    for name in ("", "_costs", "_history", "_iterations", "_metrics", "_transcript"):
        assert (await api[f"get_loops_run{name}"](run=run))[0] == 200, name
    assert (await api["get_loops_run_iterations_iteration"](run=run, iteration="1"))[0] == 200
    assert (await api["get_loops"](query={"text": "say"}))[0] == 200
    assert (await api["get_gates"]())[0] == 200
    assert (await api["get_loops_definitions"]())[0] == 200
    status, refused = await api["post_loops_run_pause"](run=run)
    assert status == 409 and isinstance(refused, dict)
    assert refused["state"] == "completed"
    status, again = await api["post_loops"](body=spec, headers={"idempotency-key": "k"})
    assert status == 200 and isinstance(again, dict)
    assert again["replayed"] is True
    assert (await api["delete_loops_run"](run=run))[0] == 204
    assert (await api["get_loops_run"](run=run))[0] == 404


async def test_a_generator_finds_one_class_for_each_schema(rest: Rest) -> None:
    document = (await rest.client.get("/api/v1/openapi.json")).json()
    schemas = document["components"]["schemas"]
    assert [schema["title"] for schema in schemas.values()] == list(schemas)
    assert [name for name in schemas if not re.fullmatch("[A-Za-z0-9]+", name)] == []
    assert {"MonthlyBudgetInput", "MonthlyBudgetOutput", "ResultArtifact"} <= set(schemas)
    targets = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert targets <= set(schemas)


async def test_integers_are_as_wide_as_they_can_become(rest: Rest) -> None:
    document = (await rest.client.get("/api/v1/openapi.json")).json()
    waiting, widths = [document["components"]], set()
    while waiting:
        match waiting.pop():
            case dict() as inner:
                widths |= {inner.get("format")} if inner.get("type") == "integer" else set()
                waiting.extend(inner.values())
            case list() as items:
                waiting.extend(items)
            case _:
                pass
    assert widths == {"int64"}


async def test_what_is_refused_before_a_route_is_in_the_document_too(rest: Rest) -> None:
    document = (await rest.client.get("/api/v1/openapi.json")).json()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            missing = {"400", "408", "421"} - set(operation["responses"])
            assert missing == set(), f"{method} {path}"


@pytest.mark.long
async def test_each_example_of_the_document_is_a_specification(rest: Rest) -> None:
    document = (await rest.client.get("/api/v1/openapi.json")).json()
    post = document["paths"]["/api/v1/loops"]["post"]
    examples = post["requestBody"]["content"]["application/json"]["examples"]
    for example in examples.values():
        answer = await rest.client.post("/api/v1/loops", json=example["value"])
        assert answer.status_code == 201, answer.text
        run = answer.json()["id"]
        await rest.client.post(f"/api/v1/loops/{run}/stop", json={"mode": "now"})
        await rest.ended(run)
