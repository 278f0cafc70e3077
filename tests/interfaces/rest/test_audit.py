"""The audit trail over REST: what is in it, and who may read it."""

import json

from pydantic import JsonValue
from rest import APPROVED, TASK, Rest, client_of

from perdure.domain.run.audit import AuditFilter
from perdure.interfaces.rest.paging import Cursors

AUDIT = "/api/v1/audit"
LOOPS = "/api/v1/loops"


async def entries(rest: Rest, **wanted: str) -> list[dict[str, object]]:
    answer = await rest.client.get(AUDIT, params=wanted)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def test_refused_logins_and_uses_are_told(door: Rest) -> None:
    text = await door.token("read")
    wrong = text[:-1] + ("A" if text[-1] != "A" else "B")
    async with client_of(door.url, {"authorization": f"Bearer {wrong}"}) as client:
        assert (await client.get(LOOPS)).status_code == 401
    (refused,) = await entries(door, action="login")
    assert refused["outcome"] == "refused"
    assert refused["who"] == f"token {text.split('_')[1]}"
    assert "REST from address 127.0.0.1" in str(refused["about"])
    assert wrong not in str(refused)
    async with client_of(door.url, {"authorization": f"Bearer {text}"}) as client:
        assert (await client.post(LOOPS, json=TASK)).status_code == 403
        assert (await client.get(AUDIT)).status_code == 403
    told = {str(entry["about"]) for entry in await entries(door, action="access")}
    assert told == {f"POST {LOOPS}", f"GET {AUDIT}"}
    assert await entries(door, action="token_used", who=f"test ({text.split('_')[1]})")


async def test_approvals_denials_and_amendments_are_told(asking: Rest) -> None:
    run = await asking.start(APPROVED)
    gates = []
    while not gates:
        gates = (await asking.client.get(f"{LOOPS}/{run}")).json()["gates"]
    name = gates[0]["name"]
    limit = {"budget": {"model_calls": 9}}
    assert (await asking.client.post(f"{LOOPS}/{run}/amend", json=limit)).status_code == 200
    path, answer = f"{LOOPS}/{run}/gates/{name}/answer", {"choice": "approve"}
    assert (await asking.client.post(path, json=answer)).status_code == 403
    async with asking.caller("answer") as other:
        assert (await other.post(path, json={"choice": "maybe"})).status_code >= 400
        assert (await other.post(path, json={"choice": "deny"})).status_code == 200
    await asking.ended(run)
    told = [
        (entry["action"], entry["outcome"], str(entry["about"]).split(":")[0])
        for entry in reversed(await entries(asking, run=run))
    ]
    assert told == [
        ("start", "allowed", "agent"),
        ("amend", "allowed", "budget.model_calls = 9"),
        ("answer", "refused", f"gate {name}"),
        ("answer", "allowed", f"gate {name}"),
    ]
    assert all("test (" in str(entry["who"]) for entry in await entries(asking, run=run))


async def test_pages_of_the_trail(door: Rest) -> None:
    for name in ("a", "b", "c"):
        async with client_of(door.url, {"authorization": "Bearer x"}) as client:
            await client.get(f"/{name}")
        await door.token("read")
    async with door.caller("read") as reader:
        for path in ("/api/v1/audit", "/api/v1/audit?limit=1"):
            assert (await reader.get(path)).status_code == 403
    first = (await door.client.get(AUDIT, params={"limit": "1"})).json()
    assert len(first["items"]) == 1
    following = {"limit": "1", "cursor": first["cursor"]}
    second = (await door.client.get(AUDIT, params=following)).json()
    assert second["items"][0]["id"] != first["items"][0]["id"]
    for wrong in ({"action": "nothing"}, {"since": "yesterday"}, {"since": "2026-01-01T00:00:00"}):
        assert (await door.client.get(AUDIT, params=wrong)).status_code == 422


async def test_the_trail_is_exported_as_lines(door: Rest) -> None:
    # No worker takes it, which is told as well as a start that went well.
    assert (await door.client.post(LOOPS, json=TASK)).status_code == 503
    lines = (await door.client.get(f"{AUDIT}.jsonl", params={"action": "start"})).text.splitlines()
    (told,) = [json.loads(line) for line in lines]
    assert (told["outcome"], told["about"].split(":")[0]) == ("refused", "agent")
    assert "test (" in told["who"]
    async with door.caller("read") as reader:
        assert (await reader.get(f"{AUDIT}.jsonl")).status_code == 403
    no_zone = {"since": "2026-01-31T12:00:00"}
    assert (await door.client.get(f"{AUDIT}.jsonl", params=no_zone)).status_code == 422


async def test_turning_pages_neither_repeats_nor_misses_what_was_there(door: Rest) -> None:
    for number in range(7):
        assert (await door.client.post(f"/api/v1/schedules/s{number}/pause")).status_code == 404
        async with door.caller("read") as reader:
            assert (await reader.post(LOOPS, json=TASK)).status_code == 403
    before = [entry["id"] for entry in await entries(door)]
    seen: list[object] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await door.client.get(AUDIT, params={"limit": "3", **cursor})
        page = answer.json()
        seen += [entry["id"] for entry in page["items"]]
        async with door.caller("read") as reader:
            await reader.post(LOOPS, json=TASK)
        if page["cursor"] is None:
            break
        cursor = {"cursor": page["cursor"]}
    assert seen == before
    for old in ("50", "{}", '{"mark": 1}x'):
        key = await door.api.services.access.signing_key()
        scope: JsonValue = ["audit", dict(AuditFilter().model_dump(mode="json"))]
        foreign = Cursors(key, scope).made(old) or ""
        assert (await door.client.get(AUDIT, params={"cursor": foreign})).status_code == 422
