"""Tokens that are bound to runs or folders: what they reach, and that all else is closed."""

from pathlib import Path

import httpx2
import pytest
from fastapi.routing import APIRoute
from rest import TASK, Rest, client_of

from perdure.domain.run.spec import STARTED_BY
from perdure.domain.specs import RUN_SPEC
from perdure.interfaces.rest.app import ROUTERS
from perdure.interfaces.rest.callers import FOR_BOUND

LOOPS = "/api/v1/loops"


async def bound(rest: Rest, **to: tuple[str, ...]) -> httpx2.AsyncClient:
    text = await rest.token("read", "operate", "answer", **to)
    return client_of(rest.url, {"authorization": f"Bearer {text}"})


async def test_a_token_of_one_run_reaches_no_other(rest: Rest) -> None:
    mine, other = await rest.start(TASK), await rest.start(TASK)
    async with await bound(rest, runs=(mine,)) as caller:
        assert (await caller.get(f"{LOOPS}/{mine}")).status_code == 200
        for method, path in (("GET", other), ("POST", f"{other}/pause"), ("DELETE", other),
                             ("GET", f"{other}/result"), ("GET", f"{other}/events"),
                             ("GET", f"{other}/stream"),
                             ("GET", f"{other}/transcript")):  # fmt: skip
            answer = await caller.request(method, f"{LOOPS}/{path}")
            assert answer.status_code == 404, path
            assert other in answer.json()["detail"]
        listed = (await caller.get(LOOPS)).json()["items"]
        assert {row["id"] for row in listed} <= {mine}
        assert (await caller.get(LOOPS, params={"root": other})).status_code == 404
        refused = await caller.post(LOOPS, json=TASK)
        assert (refused.status_code, refused.json()["code"]) == (403, "bound_token")
    for run in (mine, other):
        await rest.ended(run)


async def test_a_token_of_a_run_reaches_the_loops_that_its_agent_started(rest: Rest) -> None:
    above, run = await rest.start(TASK), await rest.start(TASK)
    for one in (above, run):
        await rest.ended(one)
    services = rest.api.services
    row = await services.records.run(run)
    assert row is not None
    assert row.spec is not None
    async with await bound(rest, runs=(above,)) as caller:
        assert (await caller.get(f"{LOOPS}/{run}")).status_code == 404
        # As if the agent of the run above had started it with its tool; and in a circle.
        for starter in (run, above):
            spec = RUN_SPEC.validate_json(await services.blobs.get(row.spec))
            told = {**spec.metadata.model_dump(), STARTED_BY: starter}
            below = spec.model_copy(update={"metadata": type(spec.metadata).model_validate(told)})
            address = await services.blobs.put(RUN_SPEC.dump_json(below))
            changed = row.model_copy(update={"kind": "roles", "spec": address})
            await services.records.put_run(changed)
            expected = 200 if starter == above else 404
            assert (await caller.get(f"{LOOPS}/{run}")).status_code == expected


@pytest.mark.long
async def test_a_token_of_a_folder_starts_and_sees_runs_there_alone(
    rest: Rest, tmp_path: Path
) -> None:
    folder, sibling = tmp_path / "ours", tmp_path / "ours-not"
    for one in (folder, sibling):
        one.mkdir()
    (folder / "way").symlink_to(sibling)
    away = await rest.start(TASK)
    async with await bound(rest, folders=(str(folder),)) as caller:
        started = await caller.post(LOOPS, json=TASK | {"workspace": str(folder)})
        assert started.status_code == 201, started.text
        run = started.json()["id"]
        assert (await caller.get(f"{LOOPS}/{run}")).status_code == 200
        assert (await caller.get(f"{LOOPS}/{away}")).status_code == 404
        places = (None, str(sibling), str(folder / "way"), f"{folder}/../ours-not", "/", 7)
        for place in places:
            spec = TASK if place is None else TASK | {"workspace": place}
            refused = await caller.post(LOOPS, json=spec)
            assert (refused.status_code, refused.json()["code"]) == (403, "bound_token"), place
        strange = {"workspace": str(sibling)}
        assert (await caller.get(f"{LOOPS}/definitions", params=strange)).status_code == 403
    for one in (run, away):
        await rest.ended(one)


ROUTES = [
    (method, route.path)
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute)
    for method in sorted(route.methods or ())
]


@pytest.mark.long
async def test_what_is_of_all_runs_is_closed(door: Rest) -> None:
    """Over every route, so that a new one is closed until somebody thinks of it."""
    async with await bound(door, runs=("nothing-000000",)) as caller:
        for method, path in ROUTES:
            if path == "/readyz":  # waits for a worker
                continue
            told = path.replace("{run}", "agent-other-0000").replace("{", "").replace("}", "")
            body = {} if method in {"POST", "PUT", "PATCH"} else None
            answer = await caller.request(method, told, json=body)
            if "{run}" in path:
                assert answer.status_code == 404, (method, path)
            elif (method, path) not in FOR_BOUND:
                assert answer.status_code == 403, (method, path)
                assert answer.json()["code"] == "bound_token"
