"""Forks over REST: from an iteration, with changed settings, under the same rules as a start."""

import pytest
from rest import Rest

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.installation.access import Scope
from perdure.interfaces.rest import forks, runs

LOOPS = "/api/v1/loops"
TASK = {"kind": "agent", "goal": "say something", "learn": False, "recall": False}


async def test_a_fork_goes_on_with_changed_settings(rest: Rest) -> None:
    run = await rest.start(TASK)
    await rest.ended(run)
    body = {"iteration": 1, "goal": "say more", "label": "forked", "set": {"agent.max_turns": 7}}
    wrong = await rest.client.post(f"{LOOPS}/{run}/fork", json=body)
    assert wrong.status_code == 422
    assert "agent.max_turns" in wrong.text

    body = body | {"set": {"agent.max_iterations": 7}, "budget": {"tokens": 50_000}}
    headers = {"idempotency-key": "one"}
    made = await rest.client.post(f"{LOOPS}/{run}/fork", json=body, headers=headers)
    assert made.status_code == 201, made.text
    forked = made.json()["id"]
    assert made.headers["location"] == f"{LOOPS}/{forked}"
    status = made.json()["status"]
    assert (status["goal"], status["label"]) == ("say more", "forked")
    assert status["forked_from"] == {"run": run, "iteration": 1}
    assert status["budget"]["limits"]["tokens"] == 50_000
    assert (await rest.ended(forked))["outcome"] == "accepted"

    again = await rest.client.post(f"{LOOPS}/{run}/fork", json=body, headers=headers)
    assert (again.status_code, again.json()["id"]) == (200, forked)
    other = await rest.client.post(
        f"{LOOPS}/{run}/fork", json=body | {"label": "x"}, headers=headers
    )
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")

    missing = await rest.client.post(f"{LOOPS}/{run}/fork", json={"iteration": 9})
    assert missing.status_code in {404, 422}
    assert "iteration" in missing.text


async def test_a_repeat_is_answered_whatever_its_specification_would_be_now(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defaults or the run that a fork is of may have changed since: it is not paid for twice."""
    run = await rest.start(TASK, **{"idempotency-key": "a start"})
    await rest.ended(run)
    starts = {
        "a start": (LOOPS, TASK, "trusted_submission", runs),
        "a fork": (f"{LOOPS}/{run}/fork", {"iteration": 1}, "revise", forks),
    }

    def refuse(*_: object, **__: object) -> None:
        raise InvalidInput("It would be refused now.")

    for key, (path, body, makes_the_specification, module) in starts.items():
        headers = {"idempotency-key": key}
        first = await rest.client.post(path, json=body, headers=headers)
        monkeypatch.setattr(module, makes_the_specification, refuse)
        again = await rest.client.post(path, json=body, headers=headers)
        assert again.status_code == 200, (key, again.text)
        assert again.json()["replayed"] is True
        assert again.json()["id"] == first.json()["id"]
        assert again.headers["location"] == f"{LOOPS}/{first.json()['id']}"
        other = await rest.client.post(path, json=body, headers={"idempotency-key": f"{key} 2"})
        assert other.status_code == 422


@pytest.mark.parametrize(
    ("scope", "changes"),
    [("operate", {"tools.access": "full"}), ("read", {})],
    ids=["files without execute", "reading only"],
)
async def test_a_fork_needs_the_trust_of_a_start(
    rest: Rest, scope: Scope, changes: dict[str, object]
) -> None:
    run = await rest.start(TASK)
    await rest.ended(run)
    async with rest.caller(scope) as caller:
        body = {"iteration": 1, "set": changes}
        answer = await caller.post(f"{LOOPS}/{run}/fork", json=body)
        assert answer.status_code == 403, answer.text


async def test_a_harmless_fork_needs_no_trust(rest: Rest) -> None:
    run = await rest.start(TASK)
    await rest.ended(run)
    async with rest.caller("operate") as caller:
        answer = await caller.post(f"{LOOPS}/{run}/fork", json={"iteration": 1})
        assert answer.status_code == 201, answer.text
        await rest.ended(answer.json()["id"])
