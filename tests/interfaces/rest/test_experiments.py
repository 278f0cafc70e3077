"""Experiments over REST: started from data, read, steered, extended, forgotten."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from kept_experiments import ended_experiment
from pydantic import JsonValue
from rest import Rest
from waiting import eventually

from perdure.domain.experiments.plan import Arm, Entry, Plan
from perdure.domain.experiments.store import StoredExperiment
from perdure.domain.foundation.errors import InvalidInput
from perdure.interfaces.rest import experiments

EXPERIMENTS = "/api/v1/experiments"
USAGE: JsonValue = {"input_tokens": 10, "output_tokens": 5}


async def experiment(rest: Rest, **fields: JsonValue) -> dict[str, JsonValue]:
    """A refine task over three inputs, in two arms; the second draft is better."""
    script: dict[str, object] = {
        "replies": [
            {"when": {"iteration": 1}, "text": "good", "times": 99, "usage": USAGE},
            {"when": {"iteration": 2}, "text": "good great", "times": 99, "usage": USAGE},
        ]
    }
    task: JsonValue = {
        "kind": "refine",
        "goal": "Write.",
        "models": {"executor": await rest.site.script(script)},
        "rubric": [{"name": "g", "evaluator": {"check": "contains", "all": ["good", "great"]}}],
        "refine": {"plan": "off", "classify": "off", "max_iterations": 2},
    }
    arms: JsonValue = {"loop": {}, "single": {"refine.max_iterations": 1}}
    return {"task": task, "inputs": ["a", "b", "c"], "arms": arms, **fields}


async def ended(rest: Rest, id: str) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}

    async def over() -> bool:
        found.update((await rest.client.get(f"{EXPERIMENTS}/{id}")).json())
        return found["state"] == "ended"

    await eventually(over)
    return found


async def test_an_experiment_from_start_to_report(rest: Rest) -> None:
    answer = await rest.client.post(EXPERIMENTS, json=await experiment(rest, id="exp-rest"))
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"{EXPERIMENTS}/exp-rest"
    status = await ended(rest, "exp-rest")
    assert (status["ended"], status["trials"], status["reason"]) == (6, 6, "completed")
    (listed,) = (await rest.client.get(EXPERIMENTS)).json()["items"]
    assert listed["id"] == "exp-rest"
    report = (await rest.client.get(f"{EXPERIMENTS}/exp-rest/report")).json()
    assert [arm["score"]["mean"] for arm in report["arms"]] == [1.0, 0.5]
    accept = {"accept": "text/csv"}
    table = await rest.client.get(f"{EXPERIMENTS}/exp-rest/report", headers=accept)
    assert len(table.text.splitlines()) == 7
    assert "exp-rest.csv" in table.headers["content-disposition"]
    accept = {"accept": "text/markdown"}
    told = await rest.client.get(f"{EXPERIMENTS}/exp-rest/report", headers=accept)
    assert told.text.startswith("# experiment: 3 inputs")
    told_once = {"inputs": ["d"], "after": 3}
    more = await rest.client.post(f"{EXPERIMENTS}/exp-rest/inputs", json=told_once)
    assert more.json()["trials"] == 8
    again = await rest.client.post(f"{EXPERIMENTS}/exp-rest/inputs", json=told_once)
    assert (again.status_code, again.json()["code"]) == (409, "not_allowed"), again.text
    assert (await ended(rest, "exp-rest"))["ended"] == 8
    assert (await rest.client.delete(f"{EXPERIMENTS}/exp-rest")).status_code == 204
    assert (await rest.client.get(f"{EXPERIMENTS}/exp-rest")).status_code == 404
    trail = (await rest.client.get("/api/v1/audit", params={"limit": 100})).json()["items"]
    told = [one["action"] for one in trail if one["about"] == "experiment exp-rest"]
    assert told == ["experiment_deleted", "experiment_extended", "experiment_started"]
    # Its runs stay.
    assert (await rest.client.get("/api/v1/loops/exp-rest-00001-1-loop")).status_code == 200


@pytest.mark.parametrize("named", ["id", "key"])
async def test_the_same_experiment_sent_again_is_one_whatever_it_would_be_now(
    rest: Rest, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    fields = await experiment(rest, **({"id": "exp-again"} if named == "id" else {}))
    headers = {"idempotency-key": "order 7"} if named == "key" else {}

    async def send(**more: JsonValue) -> tuple[int, str]:
        answer = await rest.client.post(EXPERIMENTS, json=fields | more, headers=headers)
        return answer.status_code, answer.json().get("id", answer.json().get("code"))

    code, id = await send()
    assert (code, id == "exp-again") == (201, named == "id")
    assert await send(name="another") == (
        409, "not_allowed" if named == "id" else "idempotency_conflict",
    )  # fmt: skip

    async def dearer(*_: object, **__: object) -> None:
        raise InvalidInput("One run costs more than the budget by now.")

    monkeypatch.setattr(experiments, "bounded", dearer)
    assert await send() == (200, id)
    assert [one["id"] for one in (await rest.client.get(EXPERIMENTS)).json()["items"]] == [id]
    await ended(rest, id)


async def test_wrong_experiments_are_refused_in_words(rest: Rest) -> None:
    wrong: tuple[tuple[dict[str, JsonValue], str], ...] = (
        ({"inputs": "products.jsonl"}, "send a list"),
        ({"inputs": []}, "there is none"),
        ({"arms": {"a": {"refine.max_iteration": 1}}}, "max_iterations"),
        ({"sore": 1}, "score"),
        ({"id": 7}, "id"),
        ({"budget": {"cost_usd": 0.000001}, "task": {"kind": "agent"}}, "goal"),
    )
    for fields, told in wrong:
        answer = await rest.client.post(EXPERIMENTS, json=await experiment(rest, **fields))
        assert answer.status_code == 422, (fields, answer.text)
        assert told in answer.text, (fields, answer.text)
    assert (await rest.client.get(EXPERIMENTS)).json()["items"] == []


async def test_what_runs_programs_needs_the_scope_for_it(rest: Rest) -> None:
    command: JsonValue = {"name": "c", "evaluator": {"check": "command", "argv": ["make"]}}
    arms: JsonValue = {"a": {"rubric": [command]}}
    inside: JsonValue = [{"input": "x", "set": {"rubric": [command]}}]
    async with rest.caller("operate") as caller:
        for fields in ({"arms": arms}, {"inputs": inside}):
            answer = await caller.post(EXPERIMENTS, json=await experiment(rest, **fields))
            assert answer.status_code == 403, answer.text
            assert "execute" in answer.text


async def test_one_that_has_ended_is_not_paused(rest: Rest) -> None:
    await rest.client.post(EXPERIMENTS, json=await experiment(rest, id="exp-over"))
    await ended(rest, "exp-over")
    for verb in ("pause", "stop", "resume"):
        answer = await rest.client.post(f"{EXPERIMENTS}/exp-over/{verb}")
        assert answer.status_code == 409, answer.text


async def test_the_list_comes_in_pages(rest: Rest) -> None:
    store = rest.site.parts.stores.experiments()
    plan = Plan(name="n", arms=(Arm(name="loop", task={}),))
    for number in range(5):
        at = datetime(2026, 1, 1 + number // 2, tzinfo=UTC)
        made = StoredExperiment(id=f"e{number}", plan=plan, inputs=1, digest="d", created_at=at)
        await store.create(made, [Entry(name="a")])
        await store.note(made.id, "ended", reason="stopped", at=at)
    found, cursor = [], ""
    while cursor is not None:
        query = {"limit": "2", **({"cursor": cursor} if cursor else {})}
        page = (await rest.client.get(EXPERIMENTS, params=query)).json()
        found.append([one["id"] for one in page["items"]])
        cursor = page["cursor"]
    assert found == [["e4", "e2"], ["e3", "e0"], ["e1"]]
    foreign = await rest.client.get(EXPERIMENTS, params={"cursor": "abcd"})
    assert foreign.status_code == 422


async def test_a_dry_run_tells_and_starts_nothing(rest: Rest) -> None:
    fields = await experiment(
        rest, id="exp-dry", repeats=2, budget=5, name="n", inputs=[{"id": "a", "product": "x"}]
    )
    answer = await rest.client.post(f"{EXPERIMENTS}/plan", json=fields)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["name"], told["inputs"], told["trials"]) == ("n", 1, 4)
    assert (told["names"], told["fields"], told["scored_by"]) == (["a"], ["product"], "rubric")
    assert [arm["name"] for arm in told["arms"]] == ["loop", "single"]
    assert Decimal(told["most_usd"]) == 0  # a played model costs nothing
    assert (await rest.client.get(EXPERIMENTS)).json()["items"] == []
    assert (await rest.client.get("/api/v1/loops")).json()["items"] == []
    # The same checks as of a start.
    for wrong, word in (({"inputs": []}, "there is none"), ({"sore": 1}, "score")):
        refused = await rest.client.post(f"{EXPERIMENTS}/plan", json={**fields, **wrong})
        assert refused.status_code == 422
        assert word in refused.text
    tight = {**fields, "budget": {"tokens": 10}}
    refused = await rest.client.post(f"{EXPERIMENTS}/plan", json=tight)
    assert "budget.tokens" in refused.text
    async with rest.caller("read") as reader:
        assert (await reader.post(f"{EXPERIMENTS}/plan", json=fields)).status_code == 403


async def test_the_plot_is_there_once_an_arm_has_scores(rest: Rest) -> None:
    accept = {"accept": "image/svg+xml"}
    id = await ended_experiment(rest.site)
    drawn = await rest.client.get(f"{EXPERIMENTS}/{id}/report", headers=accept)
    assert drawn.headers["content-type"].startswith("image/svg+xml")
    assert f"{id}.svg" in drawn.headers["content-disposition"]
    assert drawn.text.startswith("<svg")
    plan = Plan(name="n", arms=(Arm(name="loop", task={}),))
    bare = StoredExperiment(
        id="bare", plan=plan, inputs=1, digest="d", created_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    await rest.site.parts.stores.experiments().create(bare, [Entry(name="a")])
    none = await rest.client.get(f"{EXPERIMENTS}/bare/report", headers=accept)
    assert none.status_code == 404
    assert "No arm has scores" in none.text
