"""Erasing a run on the page and over REST: shown first, then done, written down, and final."""

from installation import Installation
from page_visit import Visitor, visitor
from rest import Rest
from waiting import eventually

SCRIPT = {"replies": [{"text": "A letter."}]}


async def _ended(site: Installation) -> str:
    task = {"kind": "agent", "goal": "Write a letter.", "learn": False}
    run = await site.start(task, SCRIPT)
    await site.gateway.result(run)

    async def closed() -> bool:
        return (await site.handle(run).describe()).close_time is not None

    await eventually(closed)
    return run


async def test_a_run_is_erased_after_a_look_at_what_goes(
    site: Installation, rest: Rest, person: Visitor
) -> None:
    run = await _ended(site)
    assert f'href="/runs/{run}/erase"' in await person.see(f"/runs/{run}")
    asked = await person.see(f"/runs/{run}/erase")
    assert "Erase this run?" in asked
    assert f"1 run: {run}" in asked
    assert "The server was told" in asked
    refused = await person.send(f"/runs/{run}/erase", {}, key="0" * 64)
    assert refused.status_code == 403
    assert await site.parts.stores.records.run(run) is not None
    key = await person.form_key(f"/runs/{run}/erase")
    done = await person.send(f"/runs/{run}/erase", {}, key=key)
    assert done.status_code == 200, done.text
    assert "are too young to be dropped safely" in done.text
    assert await site.parts.stores.records.run(run) is None
    again = await rest.client.post(f"/api/v1/loops/{run}/erase")
    assert again.json()["runs"] == [run], "a repeat completes it"
    unknown = await rest.client.post("/api/v1/loops/nothing/erase")
    assert unknown.status_code == 404
    audit = (await rest.client.get("/api/v1/audit")).json()["items"]
    assert [one["run"] for one in audit if one["action"] == "run_erased"] == [run, run]


async def test_who_may_not_do_everything_erases_nothing(site: Installation, rest: Rest) -> None:
    run = await _ended(site)
    async with visitor(rest, await rest.token("operate")) as operator:
        assert f'href="/runs/{run}/erase"' not in await operator.see(f"/runs/{run}")
        key = await operator.form_key("/runs")
        refused = await operator.send(f"/runs/{run}/erase", {}, key=key)
    assert refused.status_code == 403
    assert await site.parts.stores.records.run(run) is not None
