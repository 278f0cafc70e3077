"""Whoever asked for a run does not approve its tool calls, by whichever way the run came to be."""

import pytest
from pydantic import JsonValue
from rest import APPROVED, TASK, Rest
from waiting import eventually

from perdure.domain.foundation.errors import StoreError
from perdure.domain.run.spec import ROOT_RUN, STARTED_BY
from perdure.domain.specs import RUN_SPEC

LOOPS, SCHEDULES, EXPERIMENTS = "/api/v1/loops", "/api/v1/schedules", "/api/v1/experiments"
# Two installations of one server whose schedules share a name share the ids of a second's starts.
NEWS: dict[str, JsonValue] = {"name": "own-news", "task": APPROVED, "times": {"every_s": 86_400}}
ASKER = ("operate", "answer", "execute")


async def gate_of(rest: Rest, run: str = "") -> tuple[str, dict[str, str]]:
    """The open question of a run, or of any."""
    found: list[tuple[str, dict[str, str]]] = []

    async def waits() -> bool:
        items = (await rest.client.get("/api/v1/gates")).json()["items"]
        found[:] = [(one["run"], one["gate"]) for one in items if run in ("", one["run"])]
        return bool(found)

    await eventually(waits)
    return found[0]


async def stopped(rest: Rest, run: str) -> None:
    await rest.client.post(f"{LOOPS}/{run}/stop", json={"mode": "now"})
    await rest.ended(run)


async def test_who_made_a_schedule_does_not_approve_for_its_runs(asking: Rest) -> None:
    async with asking.caller(*ASKER) as asker, asking.caller("answer") as other:
        assert (await asker.post(SCHEDULES, json=NEWS)).status_code == 201
        # As by the clock: it is not the asker who triggers it.
        run = (await asking.client.post(f"{SCHEDULES}/own-news/trigger")).json()["run"]
        _, gate = await gate_of(asking, run)
        path, answer = f"{LOOPS}/{run}/gates/{gate['name']}/answer", {"choice": "approve"}
        own = await asker.post(path, json=answer)
        assert (own.status_code, own.json()["code"]) == (403, "own_run")
        triggered = await asking.client.post(path, json=answer)
        assert triggered.json()["code"] == "own_run"
        assert (await other.post(path, json=answer)).status_code == 200
    await stopped(asking, run)


async def test_who_asks_for_a_schedule_or_a_start_of_it_is_noted_first(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    access, news = rest.api.services.access, NEWS | {"name": "noted-news", "task": TASK}

    async def away(*_: object, **__: object) -> None:
        raise StoreError("The database is away.")

    with monkeypatch.context() as broken:
        broken.setattr(access, "note_requester", away)
        assert (await rest.client.post(SCHEDULES, json=news)).status_code == 503
        assert (await rest.client.get(f"{SCHEDULES}/noted-news")).status_code == 404
    assert (await rest.client.post(SCHEDULES, json=news)).status_code == 201
    async with rest.caller(*ASKER) as asker:
        before = await access.requesters(["schedule noted-news"])
        with monkeypatch.context() as broken:
            broken.setattr(access, "settle_start", away)
            assert (await asker.post(f"{SCHEDULES}/noted-news/trigger")).status_code == 503
        assert len(await access.requesters(["schedule noted-news"]) - before) == 1


async def test_who_asked_for_an_experiment_does_not_approve_for_its_trials(asking: Rest) -> None:
    fields: dict[str, JsonValue] = {
        "id": "exp-own", "task": APPROVED, "inputs": ["a"], "arms": {"loop": {}},
        "score": {"check": "contains", "all": ["done"], "passes": 1.0},
    }  # fmt: skip
    async with asking.caller(*ASKER) as asker, asking.caller("answer") as other:
        started = await asker.post(EXPERIMENTS, json=fields)
        assert started.status_code == 201, started.text
        run, gate = await gate_of(asking)
        assert run.startswith("exp-own-")
        path, answer = f"{LOOPS}/{run}/gates/{gate['name']}/answer", {"choice": "approve"}
        own = await asker.post(path, json=answer)
        assert (own.status_code, own.json()["code"]) == (403, "own_run")
        assert (await other.post(path, json=answer)).status_code == 200
    await asking.client.post(f"{EXPERIMENTS}/exp-own/stop", json={"mode": "now"})


async def test_who_started_an_agent_does_not_approve_for_the_loops_that_it_starts(
    asking: Rest,
) -> None:
    services = asking.api.services
    async with asking.caller(*ASKER) as asker:
        above = (await asker.post(LOOPS, json=APPROVED)).json()["id"]
        run = await asking.start(APPROVED)
        _, gate = await gate_of(asking, run)
        # As if the agent of the run above had started it with its tool.
        row = await services.records.run(run)
        assert row is not None and row.spec is not None
        spec = RUN_SPEC.validate_json(await services.blobs.get(row.spec))
        told = {**spec.metadata.model_dump(), STARTED_BY: above, ROOT_RUN: above}
        below = spec.model_copy(update={"metadata": type(spec.metadata).model_validate(told)})
        address = await services.blobs.put(RUN_SPEC.dump_json(below))
        await services.records.put_run(row.model_copy(update={"kind": "roles", "spec": address}))
        own = await asker.post(
            f"{LOOPS}/{run}/gates/{gate['name']}/answer", json={"choice": "approve"}
        )
        assert (own.status_code, own.json()["code"]) == (403, "own_run")
    await services.records.put_run(row)
    await stopped(asking, run)
    await stopped(asking, above)
