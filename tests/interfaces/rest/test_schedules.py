"""Schedules over REST: created, read, steered, triggered, ended, and written down."""

import asyncio

from pydantic import JsonValue
from rest import APPROVED, Rest
from waiting import eventually

SCHEDULES = "/api/v1/schedules"


def body(**changes: JsonValue) -> dict[str, JsonValue]:
    plain: dict[str, JsonValue] = {
        "name": "news",
        "task": {"kind": "agent", "goal": "Write the news.", "learn": False},
        "times": {"cron": ["0 9 * * MON-FRI"], "time_zone": "Europe/Berlin"},
        "month": {"tokens": 50_000},
    }
    return plain | changes


async def test_a_schedule_from_start_to_end(rest: Rest) -> None:
    answer = await rest.client.post(SCHEDULES, json=body())
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"{SCHEDULES}/news"
    assert len(answer.json()["next_at"]) == 5
    again = await rest.client.post(SCHEDULES, json=body())
    assert again.status_code == 201, "the same schedule sent again is that schedule"
    other = await rest.client.post(SCHEDULES, json=body(overlap="allow_all"))
    assert other.status_code == 409
    assert "another schedule news" in other.text
    (listed,) = (await rest.client.get(SCHEDULES)).json()["items"]
    assert listed["plan"]["month"] == {"cost_usd": None, "tokens": 50_000}
    paused = await rest.client.post(f"{SCHEDULES}/news/pause", json={"note": "on holiday"})
    assert (paused.json()["state"], paused.json()["note"]) == ("paused", "on holiday")
    started = (await rest.client.post(f"{SCHEDULES}/news/trigger")).json()
    run = started["run"]

    async def ended() -> bool:
        return (await rest.client.get(f"/api/v1/loops/{run}/result")).status_code == 200

    await eventually(ended)
    status = (await rest.client.get(f"{SCHEDULES}/news")).json()
    assert [one["run"] for one in status["starts"]] == [run]
    assert status["month"]["tokens"] > 0
    assert (await rest.client.post(f"{SCHEDULES}/news/resume")).json()["state"] == "active"
    assert (await rest.client.delete(f"{SCHEDULES}/news")).status_code == 204
    assert (await rest.client.get(f"{SCHEDULES}/news")).status_code == 404
    audit = (await rest.client.get("/api/v1/audit")).json()["items"]
    assert {(one["action"], one["about"]) for one in audit} >= {
        (f"schedule_{done}", "schedule news")
        for done in ("created", "paused", "triggered", "resumed", "deleted")
    }


async def test_a_repeated_trigger_starts_once(rest: Rest) -> None:
    assert (await rest.client.post(SCHEDULES, json=body(overlap="allow_all"))).status_code == 201
    path, key = f"{SCHEDULES}/news/trigger", {"idempotency-key": "once"}
    twice = await asyncio.gather(*(rest.client.post(path, headers=key) for _ in range(2)))
    later = await rest.client.post(path, headers=key)
    answers = [answer.json() for answer in (*twice, later)]
    assert len({one["run"] for one in answers}) == 1 and answers[0]["run"], answers
    assert sorted(one["replayed"] for one in answers) == [False, True, True]
    status = (await rest.client.get(f"{SCHEDULES}/news")).json()
    assert status["started"] == 1
    async with rest.caller("operate") as other:
        theirs = (await other.post(path, headers=key)).json()
    assert theirs["run"] and not theirs["replayed"], "keys belong to a token"
    no_key = (await rest.client.post(path)).json()
    assert len({answers[0]["run"], theirs["run"], no_key["run"]}) == 3
    assert (await rest.client.post(SCHEDULES, json=body(name="else"))).status_code == 201
    other = await rest.client.post(f"{SCHEDULES}/else/trigger", headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


async def test_a_repeated_trigger_of_what_was_skipped_says_so_again(asking: Rest) -> None:
    task: JsonValue = {**APPROVED, "workspace": None}
    assert (await asking.client.post(SCHEDULES, json=body(task=task))).status_code == 201
    path = f"{SCHEDULES}/news/trigger"
    open_run = (await asking.client.post(path)).json()["run"]
    key = {"idempotency-key": "once"}
    skipped = (await asking.client.post(path, headers=key)).json()
    assert (skipped["run"], skipped["replayed"]) == (None, False)
    assert open_run in skipped["why"]
    assert (await asking.client.post(path, headers=key)).json() == skipped | {"replayed": True}
    await asking.client.post(f"/api/v1/loops/{open_run}/stop", json={"mode": "now"})


async def test_wrong_schedules_are_refused_in_words(rest: Rest) -> None:
    wrong: tuple[tuple[dict[str, JsonValue], str], ...] = (
        ({"times": {"cron": ["61 9 * * *"]}}, "Minute"),
        ({"times": {"cron": ["0 0 31 2 *"]}}, "never come"),
        ({"times": {}}, "either cron expressions or an interval"),
        ({"times": {"every_s": 1}}, "every_s"),
        ({"times": {"every_s": 60, "time_zone": "Mars"}}, "no time zone"),
        ({"task": {"kind": "agent", "gaol": "x"}}, "gaol"),
        ({"month": {"tokens": -1}}, "tokens"),
        ({"name": "The News"}, "name"),
        ({"catch_up_s": 1}, "catch_up_s"),
    )
    for fields, told in wrong:
        answer = await rest.client.post(SCHEDULES, json=body(**fields))
        assert answer.status_code == 422, (fields, answer.text)
        assert told in answer.text, (fields, answer.text)
    assert (await rest.client.get(SCHEDULES)).json()["items"] == []


async def test_a_task_that_runs_programs_needs_the_scope(door: Rest) -> None:
    check: JsonValue = {"name": "c", "evaluator": {"check": "command", "argv": ["make"]}}
    task: JsonValue = {"kind": "refine", "goal": "x", "rubric": [check]}
    async with door.caller("operate") as caller:
        answer = await caller.post(SCHEDULES, json=body(task=task))
    assert answer.status_code == 403, answer.text
    assert "execute" in answer.text
