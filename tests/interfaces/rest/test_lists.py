"""Lists: filters, pages, counts; and what a key makes of two equal requests."""

import asyncio

import pytest
from rest import APPROVED, Rest
from waiting import eventually

from perdure.interfaces.rest.error_responses import Refused
from perdure.interfaces.rest.paging import Cursors

LOOPS = "/api/v1/loops"
TASK = {"kind": "agent", "goal": "say something", "learn": False}


async def listed(rest: Rest, query: str) -> list[str]:
    answer = await rest.client.get(f"{LOOPS}?{query}")
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


@pytest.mark.long
async def test_the_same_key_starts_one_run(rest: Rest) -> None:
    async def post() -> tuple[int, str]:
        answer = await rest.client.post(LOOPS, json=TASK, headers={"idempotency-key": "k"})
        return answer.status_code, answer.json()["id"]

    answers = await asyncio.gather(*(post() for _ in range(4)))
    assert len({run for _, run in answers}) == 1
    assert {code for code, _ in answers} <= {200, 201}
    again = await rest.client.post(LOOPS, json=TASK, headers={"idempotency-key": "k"})
    assert (again.status_code, again.json()["replayed"]) == (200, True)
    other = await rest.client.post(
        LOOPS, json=TASK | {"goal": "another"}, headers={"idempotency-key": "k"}
    )
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    async with rest.caller("operate") as caller:
        mine = await caller.post(LOOPS, json=TASK, headers={"idempotency-key": "k"})
        assert mine.status_code == 201
        await rest.ended(mine.json()["id"])
    await rest.ended(answers[0][1])


@pytest.mark.long
async def test_runs_are_found_by_filter_text_and_page(rest: Rest) -> None:
    runs = [await rest.start(TASK | {"goal": f"find tree {n}"}) for n in range(3)]
    other = await rest.start(TASK | {"goal": "something else", "metadata": {"label": "odd"}})
    for run in (*runs, other):
        await rest.ended(run)
    await eventually(lambda: _all(rest, 4))
    assert set(await listed(rest, "text=TREE+find")) == set(runs)
    assert await listed(rest, "label=odd") == [other]
    assert await listed(rest, "kind=refine") == []
    assert set(await listed(rest, f"root={other}")) == {other}
    assert await listed(rest, "status=paused") == []
    assert len(await listed(rest, "status=completed&outcome=accepted")) == 4

    first = (await rest.client.get(f"{LOOPS}?limit=3")).json()
    rest_of = (await rest.client.get(f"{LOOPS}?limit=3&cursor={first['cursor']}")).json()
    found = [item["id"] for item in (*first["items"], *rest_of["items"])]
    assert sorted(found) == sorted([*runs, other])
    foreign = await rest.client.get(f"{LOOPS}?limit=3&text=x&cursor={first['cursor']}")
    assert foreign.status_code == 422
    assert (await rest.client.get(f"{LOOPS}?root=nobody")).status_code == 404
    count = (await rest.client.get(f"{LOOPS}/active/count")).json()
    assert isinstance(count["count"], int)
    assert "missing" in count["note"]


async def test_questions_keep_their_places_while_others_are_answered(asking: Rest) -> None:
    runs = [await asking.start(APPROVED) for _ in range(4)]
    gates: list[dict[str, str]] = []

    async def waiting() -> bool:
        gates[:] = (await asking.client.get("/api/v1/gates")).json()["items"]
        return len(gates) == len(runs)

    await eventually(waiting)
    first = (await asking.client.get("/api/v1/gates?limit=2")).json()
    assert first["items"] == gates[:2]
    name = first["items"][0]["gate"]["name"]
    path = f"{LOOPS}/{first['items'][0]['run']}/gates/{name}/answer"
    async with asking.caller("answer") as other:
        assert (await other.post(path, json={"choice": "deny"})).status_code == 200

    async def gone() -> bool:
        return len((await asking.client.get("/api/v1/gates")).json()["items"]) < len(runs)

    await eventually(gone)
    then = (await asking.client.get(f"/api/v1/gates?limit=2&cursor={first['cursor']}")).json()
    assert [one["run"] for one in then["items"]] == [one["run"] for one in gates[2:]]
    assert then["cursor"] is None
    old = Cursors(await asking.api.services.access.signing_key(), ["gates"]).made("2")
    assert (await asking.client.get(f"/api/v1/gates?cursor={old}")).status_code == 422
    for run in runs:
        await asking.client.post(f"{LOOPS}/{run}/stop", json={"mode": "now"})


async def _all(rest: Rest, wanted: int) -> bool:
    return len(await listed(rest, "status=completed")) == wanted


def test_a_cursor_belongs_to_its_list() -> None:
    key = b"k" * 32
    made = Cursors(key, ["a"]).made("7")
    assert Cursors(key, ["a"]).offset(made) == 7
    for other in (Cursors(key, ["b"]), Cursors(b"x" * 32, ["a"])):
        with pytest.raises(Refused, match="not a cursor"):
            other.read(made)
    assert Cursors(key, ["a"]).made(None) is None
