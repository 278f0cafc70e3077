"""What others try at the MCP door over HTTP: no token, a small one, foreign pages, big bodies."""

from dataclasses import replace

import httpx2
import pytest
from half_sent import exchange, half_sent
from mcp_over_http import remote, serving, token, told
from rest import scripted

from perdure.domain.foundation.errors import StoreError
from perdure.domain.run.audit import AuditFilter
from perdure.gateway.start import Starter

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
HEADERS = {"accept": "application/json, text/event-stream"}
CALLS = {
    "loop_start": {"definition": "pair", "goal": "say", "parameters": {"topic": "rust"}},
    "loop_control": {"action": "stop", "id": "all"},
    "loop_list": {},
    "loop_status": {"id": "x"},
    "loop_definitions": {},
    "loop_gates": {},
    "run_list": {},
    "run_text": {"id": "x", "ref": "sha256:0"},
}


def plain(text=None, **headers):
    """A client that sends what it is told."""
    given = {**HEADERS, **headers}
    if text is not None:
        given["authorization"] = f"Bearer {text}"
    return httpx2.AsyncClient(headers=given, timeout=30, trust_env=False)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD"])
async def test_nothing_answers_without_a_token(guarded, method):
    await token(guarded, "admin")
    async with serving(guarded) as url, plain() as nobody:
        for path in ("", "/x", "/../", "?token=x"):
            answer = await nobody.request(method, f"{url}{path}")
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("scope", ["read", "operate", "answer", "execute"])
async def test_each_tool_needs_its_scope(guarded, scope):
    text = await token(guarded, scope)
    reads = scope in {"read", "operate", "answer"}
    async with serving(guarded) as url, remote(url, text) as client:
        for tool, arguments in CALLS.items():
            needed = "operate" if tool in {"loop_start", "loop_control"} else "read"
            allowed = scope == "operate" or (needed == "read" and reads)
            said = await told(client, tool, **arguments)
            assert (f"lacks the scope {needed}" in str(said)) is not allowed, (tool, said)


async def test_stages_with_full_access_need_execute(guarded):
    text = await token(guarded, "operate")
    before = await guarded.site.parts.stores.records.find_runs()
    async with serving(guarded) as url, remote(url, text) as client:
        said = await told(client, "loop_start", definition="harness", goal="change it")
    assert "the scope execute" in said
    assert await guarded.site.parts.stores.records.find_runs() == before


async def test_nothing_starts_whose_starter_cannot_be_noted(guarded, monkeypatch):
    text = await token(guarded, "operate")
    stores = guarded.site.parts.stores

    async def away(*_):
        raise StoreError("The database is away.")

    before = await stores.records.find_runs()
    async with serving(guarded) as url, remote(url, text) as client:
        with monkeypatch.context() as broken:
            broken.setattr(stores.access, "claim_start", away)
            pair = {"definition": "pair", "parameters": {"topic": "rust"}}
            assert "is away" in await told(client, "loop_start", goal="say", **pair)
            assert "is away" in await told(client, "run_start", kind="agent", goal="say")
    assert await stores.records.find_runs() == before


async def test_what_did_not_start_is_not_noted(guarded, monkeypatch):
    text, access = await token(guarded, "operate"), guarded.site.parts.stores.access
    claim, runs = access.claim_start, []

    async def seen(wanted):
        runs.append(wanted.run)
        return await claim(wanted)

    async def refused(*_, **__):
        raise StoreError("There is no room.")

    monkeypatch.setattr(access, "claim_start", seen)
    monkeypatch.setattr(Starter, "start", refused)
    async with serving(guarded) as url, remote(url, text) as client:
        said = await told(
            client, "loop_start", definition="pair", goal="say", parameters={"topic": "rust"}
        )
    assert "no room" in said
    assert [await access.started_by(run) for run in runs] == [None]


async def test_a_session_lends_its_token_to_nobody(guarded):
    mighty, small = await token(guarded, "operate"), await token(guarded, "read")
    async with serving(guarded) as url:
        async with remote(url, mighty) as client:
            assert "taken" in await told(client, "loop_control", action="stop", id="all")
        async with remote(url, mighty, later=small) as client:
            said = await told(client, "loop_control", action="stop", id="all")
    assert "lacks the scope operate" in str(said)


async def test_a_token_may_ask_so_often_and_no_other_pays_for_it(guarded):
    mine, other = await token(guarded, "read"), await token(guarded, "read")
    limited = replace(guarded, mcp=replace(guarded.mcp, rate_per_minute=3))
    async with serving(limited) as url, plain(mine) as client, plain(other) as stranger:
        codes = [(await client.post(url, json=PING)).status_code for _ in range(4)]
        refused = await client.post(url, json=PING)
        assert (await stranger.post(url, json=PING)).status_code != 429
    assert 429 not in codes[:3]
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["detail"] == "More than 3 requests in a minute."


async def test_who_guesses_tokens_is_slowed(guarded):
    await token(guarded, "read")
    limited = replace(guarded, mcp=replace(guarded.mcp, rate_per_minute=2))
    wrong = "perdure_00000000_" + "A" * 43
    async with serving(limited) as url, plain(wrong) as client:
        codes = [(await client.post(url, json=PING)).status_code for _ in range(2)]
        last = (await client.post(url, json=PING)).status_code
    assert codes == [401, 401]
    assert last == 429


FOREIGN_HOSTS = ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "0.0.0.0:1"]
FOREIGN_ORIGINS = ["https://evil.example", "null", "http://127.0.0.1.evil.example", "file://"]


async def test_other_hosts_and_pages_of_others_are_refused(guarded):
    text = await token(guarded, "admin")
    async with serving(guarded) as url, plain(text) as client:
        for host in FOREIGN_HOSTS:
            answer = await client.post(url, json=PING, headers={"host": host})
            assert answer.status_code == 421, host
        for origin in FOREIGN_ORIGINS:
            answer = await client.post(url, json=PING, headers={"origin": origin})
            assert answer.status_code == 403, origin
            assert "access-control-allow-origin" not in answer.headers
        own = await client.post(url, json=PING, headers={"origin": url.removesuffix("/mcp")})
        assert own.status_code not in {401, 403, 421}


async def test_large_bodies_are_refused_with_and_without_a_length(guarded):
    text = await token(guarded, "admin")
    large = b'{"x": "' + b"a" * 5_000_000 + b'"}'

    async def parts():
        for start in range(0, len(large), 100_000):
            yield large[start : start + 100_000]

    headers = {"content-type": "application/json"}
    async with serving(guarded) as url, plain(text) as client:
        assert (await client.post(url, content=large, headers=headers)).status_code == 413
        assert (await client.post(url, content=parts(), headers=headers)).status_code == 413


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"[" * 100_000, b'{"jsonrpc": "2.0"}', b"\xff", b'{"id": NaN}'],
    ids=["nothing", "broken", "list", "null", "bottomless", "no method", "no UTF-8", "no number"],
)
async def test_a_body_that_is_no_message_is_refused_without_a_trace(guarded, body):
    text = await token(guarded, "admin")
    async with serving(guarded) as url, plain(text) as client:
        answer = await client.post(url, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert "Traceback" not in answer.text
    assert "site-packages" not in answer.text


async def test_a_broken_store_lets_nobody_in(guarded, monkeypatch):
    text = await token(guarded, "admin")
    async with serving(guarded) as url, plain(text) as client:

        async def broken(*_):
            raise StoreError("The database is away.")

        access = guarded.site.parts.stores.access
        monkeypatch.setattr(access, "token", broken)
        answer = await client.post(url, json=PING)
        assert (answer.status_code, answer.json()["error"]) == (503, "store_error")


@pytest.mark.long
async def test_loops_of_another_installation_are_not_reached(guarded, server, tmp_path, over):
    address = server.client.service_client.config.target_host
    slow = await guarded.site.script({"replies": [{"text": "slow", "delay_s": 60, "times": 9}]})
    roles = {"definition": "pair", "parameters": {"topic": "rust"}}
    spec = {"kind": "roles", "goal": "say", "roles": roles, "models": {"executor": slow}}
    run = await guarded.site.start(spec)
    async with scripted(tmp_path / "other", address, {"replies": []}) as elsewhere:
        other = over(elsewhere, tokens=True)
        text = await token(other, "admin")
        async with serving(other) as url, remote(url, text) as client:
            for tool, more in (("loop_status", {}), ("loop_control", {"action": "stop"})):
                said = await told(client, tool, id=run, **more)
                assert "There is no run" in said
            assert (await told(client, "loop_control", action="stop", id="all"))["taken"] == []
            assert run not in str(await told(client, "loop_list"))
    assert (await guarded.site.status(run)).phase != "ended"
    await guarded.site.handle(run).terminate()


@pytest.mark.long
async def test_all_means_every_open_loop_within_reach_whatever_its_id(guarded):
    site = guarded.site
    slow = await site.script({"replies": [{"text": "slow", "delay_s": 60, "times": 9}]})
    roles = {"definition": "pair", "parameters": {"topic": "rust"}}
    spec = {"kind": "roles", "goal": "say", "roles": roles, "models": {"executor": slow}}
    ours = [await site.start(spec, run_id=f"nightly-{number}") for number in range(2)]
    other = await site.start(spec)
    agent = await site.start({"kind": "agent", "goal": "say", "models": spec["models"]})
    text = await token(guarded, "operate", runs=(*ours, agent))
    async with serving(guarded) as url, remote(url, text) as client:
        said = await told(client, "loop_control", action="pause", id="all")
        assert sorted(said["taken"]) == ours
        assert not said.get("refused")
        again = await told(client, "loop_control", action="pause", id="all")
        assert sorted(again["refused"]) == ours
    for run in (*ours, other, agent):
        await site.handle(run).terminate()


async def test_lengths_connections_and_names_are_checked(guarded):
    text = await token(guarded, "admin")
    async with serving(guarded) as url, plain(text) as known:
        port = int(url.rpartition(":")[2].partition("/")[0])
        both = f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {text}\r\n"
        both += "content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
        assert (await exchange(port, both.encode())).startswith(b"HTTP/1.1 400 ")
        assert (
            await known.post(url, json=PING, headers={"host": "evil.example"})
        ).status_code == 421
        async with half_sent(port, 600):
            assert (await known.post(url, json=PING)).status_code < 413


@pytest.mark.long
async def test_a_bound_token_reaches_its_folder_alone(guarded, tmp_path):
    (tmp_path / "ours").mkdir()
    text = await token(guarded, "read", "operate", folders=(str(tmp_path / "ours"),))
    unbound = await token(guarded, "read", "operate")
    async with serving(guarded) as url:
        async with remote(url, unbound) as client:
            away = await told(client, "run_start", goal="look around")
        async with remote(url, text) as client:
            assert "is bound to" in await told(client, "run_start", goal="look around")
            assert "no run" in await told(client, "loop_status", id=away["id"])
            assert (await told(client, "loop_list"))["loops"] == []
    trail = await guarded.site.parts.stores.audit.entries(AuditFilter(action="token_used"))
    assert {entry.about for entry in trail} == {"MCP from address 127.0.0.1"}
