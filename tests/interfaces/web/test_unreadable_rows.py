"""A row that this version cannot read hides no other, over REST and on the page."""

from kept_experiments import AT, ended_experiment
from page_visit import Visitor
from proposals import propose
from rest import Rest
from sqlalchemy import Table, update

from perdure.adapters.stores.tables import experiments, memory, schedules
from perdure.domain.experiments.plan import Arm, Entry, Plan
from perdure.domain.experiments.store import StoredExperiment
from perdure.domain.schedules.plan import SchedulePlan, Times
from perdure.interfaces.unreadable_memory import unreadable_note

API = "/api/v1"


async def _spoil(rest: Rest, table: Table, column: str, **at: str) -> None:
    where = [table.c[name] == value for name, value in at.items()]
    async with rest.site.parts.stores.database.write() as connection:
        await connection.execute(update(table).where(*where).values({column: "{"}))


async def test_experiments(person: Visitor, rest: Rest) -> None:
    good = await ended_experiment(rest.site, name="bottles", entry="x")
    store = rest.site.parts.stores.experiments()
    at = (await store.list())[0].created_at
    plan = Plan(name="old", arms=(Arm(name="loop", task={}),))
    made = StoredExperiment(id="bad", plan=plan, inputs=1, digest="d", created_at=at)
    await store.create(made, [Entry(name="a")])
    await _spoil(rest, experiments, "plan", id="bad")
    items = (await rest.client.get(f"{API}/experiments")).json()["items"]
    told = {one["id"]: one["problem"] for one in items}
    assert told[good] == ""
    assert "this version cannot read it" in told["bad"]
    page = await person.see("/experiments")
    assert "perdure experiment delete bad" in page
    assert f'href="/experiments/{good}"' in page
    answer = await rest.client.get(f"{API}/experiments/bad")
    assert (answer.status_code, answer.json()["code"]) == (500, "unreadable")
    assert (await rest.client.delete(f"{API}/experiments/bad")).status_code == 204
    assert "bad" not in await person.see("/experiments")


async def test_schedules(person: Visitor, rest: Rest) -> None:
    store = rest.site.parts.stores.schedules()
    for name in ("bad", "good"):
        plan = SchedulePlan(name=name, kind="agent", task={"goal": "g"}, times=Times(every_s=3_600))
        await store.put(plan, at=AT, replace=False)
    await _spoil(rest, schedules, "plan", name="bad")
    found = (await rest.client.get(f"{API}/schedules")).json()
    assert [one["plan"]["name"] for one in found["items"]] == ["good"]
    assert "perdure schedule delete bad" in found["note"]
    page = await person.see("/schedules")
    assert "perdure schedule delete bad" in page
    assert 'href="/schedules/good"' in page
    assert (await rest.client.delete(f"{API}/schedules/bad")).status_code == 204
    assert (await rest.client.get(f"{API}/schedules")).json()["note"] == ""


async def test_what_was_learned(person: Visitor, rest: Rest) -> None:
    await propose(rest.site.parts.stores)
    (skill, *others) = (await rest.client.get(f"{API}/library/skill")).json()["items"]
    await _spoil(rest, memory, "entry", id=skill["id"])
    for shelf in ("skill", "learning", "pattern"):
        found = (await rest.client.get(f"{API}/library/{shelf}")).json()
        assert f"perdure memory forget {skill['id']}" in found["note"], shelf
    kept = (await rest.client.get(f"{API}/library/skill")).json()["items"]
    assert [one["id"] for one in kept] == [one["id"] for one in others]
    assert f"perdure memory forget {skill['id']}" in await person.see("/library")
    assert skill["id"] in await unreadable_note(rest.site.parts.stores.memory)
