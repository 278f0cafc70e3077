"""Steering over HTTP: verbs, edits, questions; each refusal names the state."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from rest import APPROVED, TASK, Rest, scripted, served
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

LOOPS = "/api/v1/loops"
# The first reply takes a while, so that there is a run to steer.
SLOW = {
    "replies": [
        {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}], "delay_s": 2.5},
        {"text": "done"},
    ],
    "exhausted": "repeat_last",
}


@pytest.fixture
async def slow(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    """A door whose model takes seconds for its first reply."""
    address = server.client.service_client.config.target_host
    async with (
        scripted(tmp_path / "home", address, SLOW) as site,
        site.worker(),
        served(site) as door,
    ):
        yield door


def state_of(answer: httpx2.Response) -> tuple[int, str | None]:
    """Status and the state that a refusal names."""
    return answer.status_code, answer.json().get("state")


@pytest.mark.long
async def test_pause_and_resume_name_the_state(slow: Rest) -> None:
    run = await slow.start(TASK)
    verb = f"{LOOPS}/{run}"
    assert state_of(await slow.client.post(f"{verb}/resume")) == (409, "running")
    paused = await slow.client.post(f"{verb}/pause")
    assert (paused.status_code, paused.json()["lifecycle"]) == (200, "paused")
    assert state_of(await slow.client.post(f"{verb}/pause")) == (409, "paused")
    assert state_of(await slow.client.delete(verb))[0] == 409
    assert state_of(await slow.client.get(f"{verb}/result")) == (409, "paused")
    assert (await slow.client.post(f"{verb}/resume")).status_code == 200
    assert (await slow.ended(run))["outcome"] == "accepted"
    for name in ("pause", "resume", "stop"):
        assert state_of(await slow.client.post(f"{verb}/{name}")) == (409, "completed")


@pytest.mark.long
async def test_a_repeated_verb_has_one_effect(slow: Rest) -> None:
    run = await slow.start(TASK)
    headers = {"idempotency-key": "one"}
    body = {"guidance": "be brief"}
    first = await slow.client.post(f"{LOOPS}/{run}/amend", json=body, headers=headers)
    again = await slow.client.post(f"{LOOPS}/{run}/amend", json=body, headers=headers)
    assert (first.status_code, again.status_code) == (200, 200)
    status = (await slow.client.get(f"{LOOPS}/{run}")).json()
    (amendment,) = status["amendments"]
    assert amendment["by"].startswith("test (")
    stopped = await slow.client.post(f"{LOOPS}/{run}/stop", json={"mode": "now"})
    assert stopped.status_code == 200
    assert (await slow.ended(run))["outcome"] == "stopped"


@pytest.mark.long
async def test_another_request_with_a_used_key_is_done_too(slow: Rest) -> None:
    run = await slow.start(TASK)
    headers = {"idempotency-key": "one"}

    async def sent(name: str, body: dict[str, object] | None = None) -> object:
        answer = await slow.client.post(f"{LOOPS}/{run}/{name}", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()["verb"]

    for guidance in ("be brief", "be kind", "be brief"):
        assert await sent("amend", {"guidance": guidance}) == "amend"
    assert await sent("pause") == "pause"
    status = (await slow.client.get(f"{LOOPS}/{run}")).json()
    told = [amendment["changes"]["guidance"] for amendment in status["amendments"]]
    assert (told, status["lifecycle"]) == (["be brief", "be kind"], "paused")
    assert await sent("stop", {"mode": "now"}) == "stop"
    assert (await slow.ended(run))["outcome"] == "stopped"


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("stop", {"mode": "soon"}, "mode"),
        ("stop", {"more": 1}, "more"),
        ("amend", {"guidance": "x" * 9_000}, "guidance"),
        ("input", {"text": ""}, "text"),
        ("retry", {"note": 1}, "note"),
    ],
)
async def test_wrong_bodies_name_their_place(
    slow: Rest, path: str, body: dict[str, object], words: str
) -> None:
    answer = await slow.client.post(f"{LOOPS}/any/{path}", json=body)
    assert answer.status_code == 422
    assert words in {error["path"] for error in answer.json()["errors"]}


@pytest.mark.long
async def test_an_edit_shows_at_every_door(slow: Rest) -> None:
    run = await slow.start(TASK | {"metadata": {"team": {"name": "web"}}})
    path = f"{LOOPS}/{run}"
    tag = (await slow.client.get(path)).headers["etag"]
    body = {
        "goal": "look behind",
        "max_iterations": 9,
        "label": "seen",
        "metadata": {"team": {"size": 3}},
    }
    edited = await slow.client.patch(path, json=body, headers={"if-match": tag})
    assert edited.status_code == 200, edited.text
    told = edited.json()
    assert (told["goal"], told["iteration_limit"], told["label"]) == ("look behind", 9, "seen")
    assert told["metadata"] == {"team": {"name": "web", "size": 3}}
    stale = await slow.client.patch(path, json={"label": "x"}, headers={"if-match": tag})
    assert (stale.status_code, stale.json()["code"]) == (409, "version_conflict")
    assert stale.headers["etag"] == edited.headers["etag"]

    assert (await slow.ended(run))["outcome"] == "accepted"
    said = (await slow.client.get(f"{path}/transcript")).text
    assert "look behind" in said
    row = await slow.api.services.records.run(run)
    assert row is not None and (row.goal, row.label) == ("look behind", "seen")
    late = await slow.client.patch(path, json={"label": "late"})
    assert state_of(late) == (409, "completed")


@pytest.mark.long
@pytest.mark.parametrize(
    "body", [{}, {"status": "completed"}, {"spend": 0}, {"max_iterations": 0}, {"goal": ""}]
)
async def test_what_the_server_owns_is_not_edited(slow: Rest, body: dict[str, object]) -> None:
    run = await slow.start(TASK)
    assert (await slow.client.patch(f"{LOOPS}/{run}", json=body)).status_code == 422
    await slow.client.post(f"{LOOPS}/{run}/stop", json={"mode": "now"})
    await slow.ended(run)


@pytest.mark.long
async def test_a_lower_limit_ends_the_run(slow: Rest) -> None:
    run = await slow.start(TASK)
    answer = await slow.client.patch(f"{LOOPS}/{run}", json={"max_iterations": 1})
    assert answer.status_code == 200, answer.text
    assert (await slow.ended(run))["reason"] == "max_iterations"


@pytest.mark.long
async def test_an_approval_needs_the_arguments_and_somebody_else(asking: Rest) -> None:
    run = await asking.start(APPROVED)

    async def waits() -> bool:
        return bool((await asking.client.get("/api/v1/gates")).json()["items"])

    await eventually(waits)
    (item,) = (await asking.client.get("/api/v1/gates")).json()["items"]
    gate = item["gate"]
    assert (item["run"], gate["kind"]) == (run, "tool_approval")
    path = f"{LOOPS}/{run}/gates/{gate['id']}/answer"
    approve = {"choice": "approve", "args_hash": gate["args_hash"]}

    missing = await asking.client.post(path, json={"choice": "approve"})
    assert (missing.status_code, missing.json()["errors"][0]["path"]) == (422, "args_hash")
    own = await asking.client.post(path, json=approve)
    assert (own.status_code, own.json()["code"]) == (403, "own_run")
    async with asking.caller("answer") as other:
        wrong = await other.post(path, json={**approve, "args_hash": "0" * 64})
        assert state_of(wrong) == (409, "waiting")
        nothing = await other.post(path, json={})
        assert nothing.status_code == 422
        strange = await other.post(path, json={"choice": "perhaps"})
        assert strange.status_code == 409
        answers = await asyncio.gather(*(other.post(path, json=approve) for _ in range(3)))
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
        unknown = await other.post(f"{LOOPS}/{run}/gates/g99/answer", json={"choice": "approve"})
        assert unknown.status_code in {404, 409}
        assert (await other.get(path)).status_code == 405
    assert (await asking.ended(run))["outcome"] == "accepted"


@pytest.mark.long
async def test_an_unknown_gate_is_not_found(asking: Rest) -> None:
    run = await asking.start(APPROVED)
    answer = await asking.client.post(
        f"{LOOPS}/{run}/gates/g99/answer", json={"choice": "approve", "args_hash": "0"}
    )
    assert answer.status_code == 404
    await asking.client.post(f"{LOOPS}/{run}/stop", json={"mode": "now"})
    await asking.ended(run)
