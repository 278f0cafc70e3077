"""Loop definitions over HTTP: nobody's change is lost, and what the store owns is nobody's."""

import pytest
from rest import Rest

from perdure.interfaces.rest.paging import Cursors

PATH = "/api/v1/loops/definitions"
MINE = {
    "name": "mine",
    "description": "Writes once.",
    "roles": [{"role": "writer", "prompt": "Write {{what}}."}],
    "termination_condition": {"type": "iteration_bound", "iterations": 1},
    "parameters": [{"name": "what"}],
}
NEW = {"if-none-match": "*"}


async def test_built_in_ones_are_listed_page_by_page(door: Rest) -> None:
    first = (await door.client.get(f"{PATH}?limit=4")).json()
    second = (await door.client.get(f"{PATH}?limit=200&cursor={first['cursor']}")).json()
    names = [item["name"] for item in (*first["items"], *second["items"])]
    assert {"harness", "research", "goal-driven"} <= set(names)
    assert names == sorted(names)
    assert second["cursor"] is None


async def test_no_page_skips_a_definition_when_one_before_it_is_removed(door: Rest) -> None:
    made = await door.client.post(PATH, json=MINE | {"name": "a-first"}, headers=NEW)
    first = (await door.client.get(f"{PATH}?limit=1")).json()
    assert [item["name"] for item in first["items"]] == ["a-first"]
    tag = {"if-match": made.headers["etag"]}
    assert (await door.client.delete(f"{PATH}/a-first", headers=tag)).status_code == 204
    second = (await door.client.get(f"{PATH}?limit=200&cursor={first['cursor']}")).json()
    assert second["items"] == (await door.client.get(f"{PATH}?limit=200")).json()["items"]


async def test_a_cursor_that_counted_definitions_is_refused(door: Rest) -> None:
    key = await door.api.services.access.signing_key()
    old = Cursors(key, ["definitions", None]).made("4")
    assert (await door.client.get(f"{PATH}?cursor={old}")).status_code == 422


@pytest.mark.long
async def test_a_definition_lives(door: Rest) -> None:
    made = await door.client.post(PATH, json=MINE, headers=NEW)
    assert made.status_code == 201, made.text
    assert made.headers["location"] == f"{PATH}/mine"
    tag = made.headers["etag"]
    read = await door.client.get(f"{PATH}/mine")
    assert (read.headers["etag"], read.json()["fields"]) == (tag, MINE)

    changed = MINE | {"description": "Writes well."}
    updated = await door.client.put(f"{PATH}/mine", json=changed, headers={"if-match": tag})
    assert updated.status_code == 200, updated.text
    assert updated.headers["etag"] != tag
    stale = await door.client.put(f"{PATH}/mine", json=MINE, headers={"if-match": tag})
    assert (stale.status_code, stale.json()["code"]) == (409, "version_conflict")
    now = {"if-match": updated.headers["etag"]}
    assert (await door.client.delete(f"{PATH}/mine", headers=now)).status_code == 204
    assert (await door.client.get(f"{PATH}/mine")).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "code"),
    [
        ("POST", "", MINE, {}, 409, "precondition_required"),
        ("POST", "", MINE | {"name": "harness"}, NEW, 409, "conflict"),
        ("POST", "", MINE | {"version": "1"}, NEW, 422, "invalid_input"),
        ("POST", "", {"name": "x"}, NEW, 422, "invalid_input"),
        ("PUT", "/nobody", MINE | {"name": "nobody"}, {"if-match": '"1"'}, 404, "not_found"),
        ("PUT", "/harness", MINE | {"name": "harness"}, {"if-match": '"1"'}, 409, "not_allowed"),
        ("DELETE", "/nobody", None, {"if-match": '"1"'}, 404, "not_found"),
        ("GET", "/..%2f..%2fetc", None, {}, 404, "not_found"),
    ],
)
async def test_a_wrong_change_is_refused(
    door: Rest,
    method: str,
    path: str,
    body: dict[str, object] | None,
    headers: dict[str, str],
    status: int,
    code: str,
) -> None:
    answer = await door.client.request(method, f"{PATH}{path}", json=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


async def test_stages_with_full_access_need_execute(door: Rest) -> None:
    spec = {"kind": "roles", "goal": "change it", "roles": {"definition": "harness"}}
    async with door.caller("operate") as caller:
        answer = await caller.post("/api/v1/loops", json=spec)
        assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
        assert "harness" in answer.json()["detail"]


@pytest.mark.long
async def test_folders_that_nobody_serves_are_not_read(door: Rest) -> None:
    async with door.caller("operate") as caller:
        answer = await caller.get(f"{PATH}?workspace=/etc")
        assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
