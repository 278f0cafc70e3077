"""Who comes in: tokens, scopes, rates, bounds of a request, and errors as problem documents."""

import re
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from installation import Installation
from rest import Rest, api_site, client_of, served, token_of

from perdure.domain.foundation.errors import NotAllowed, StoreError
from perdure.domain.installation.access import Scope
from perdure.domain.installation.hosts import is_loopback
from perdure.interfaces.rest.server import require_token_beyond_loopback
from perdure.interfaces.rest.settings import ApiRules

LOOPS = "/api/v1/loops"


def problem(answer: httpx2.Response) -> dict[str, object]:
    """The problem document of an answer, its form checked."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    told = answer.json()
    assert told["status"] == answer.status_code
    assert told["type"] == f"urn:perdure:problem:{told['code']}"
    assert "Traceback" not in answer.text
    return told


def refusal(answer: httpx2.Response) -> tuple[int, str]:
    """Status and code of an answer that is a problem document."""
    return answer.status_code, str(problem(answer)["code"])


@pytest.mark.parametrize(
    "path", [LOOPS, "/api/v1/gates", "/metrics", "/api/v1/openapi.json", "/api/v1/nowhere", "/api/"]
)
async def test_without_a_token_nothing_answers(door: Rest, path: str) -> None:
    async with door.caller() as nobody:
        answer = await nobody.get(path)
        told = problem(answer)
        assert refusal(answer) == (401, "unauthorized")
        assert "perdure api token create" in str(told["cure"])
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/openapi.json", "/loops", "/"])
async def test_a_program_at_a_page_is_told_where_the_api_is(door: Rest, path: str) -> None:
    async with door.caller() as nobody:
        json = await nobody.get(path, headers={"accept": "application/json"})
    async with door.caller("read") as behind_a_proxy:
        person = await behind_a_proxy.get(path, headers={"accept": "text/html, */*"})
        part = await behind_a_proxy.get(path, headers={"sec-fetch-mode": "cors"})
    for answer in (json, await door.client.get(path), await door.client.post(path, json={})):
        told = problem(answer)
        assert refusal(answer) == (404, "not_found")
        assert "GET /api/v1/openapi.json" in str(told["cure"])
    assert (person.status_code, part.status_code) == (303, 303)


@pytest.mark.long
async def test_health_answers_everybody_and_tells_little(door: Rest) -> None:
    async with door.caller() as nobody:
        assert (await nobody.get("/healthz")).text == "ok\n"
        ready = await nobody.get("/readyz")
        assert (ready.status_code, ready.json()) == (503, {"ready": False, "parts": {}})
    told = (await door.client.get("/readyz")).json()
    assert told["parts"] == {"store": True, "server": True, "worker": False}


async def test_a_wrong_secret_opens_nothing(door: Rest) -> None:
    text = await door.token("admin")
    wrong = text[:-1] + ("A" if text[-1] != "A" else "B")
    for given in (f"Bearer {wrong}", "Bearer x", "Basic Og==", text, "Bearer", ""):
        async with client_of(door.url, {"authorization": given}) as client:
            assert refusal(await client.get(LOOPS)) == (401, "unauthorized")
    async with client_of(door.url, {"authorization": f"bearer {text}"}) as client:
        assert (await client.get(LOOPS)).status_code == 200


async def test_revoked_and_expired_tokens_open_nothing(door: Rest) -> None:
    now = datetime.now(UTC)
    old = await door.token("admin", expires_at=now - timedelta(seconds=1))
    revoked = await door.token("admin")
    await door.api.services.access.revoke_token(revoked.split("_")[1], at=now)
    for text, said in ((old, "expired on"), (revoked, "was revoked on")):
        async with client_of(door.url, {"authorization": f"Bearer {text}"}) as client:
            answer = await client.get(LOOPS)
        assert refusal(answer) == (401, "unauthorized")
        assert said in answer.json()["detail"]
        assert "perdure api token" in answer.json()["cure"]
        # Who does not know the secret learns nothing of the token.
        wrong = text[:-1] + ("A" if text[-1] != "A" else "B")
        async with client_of(door.url, {"authorization": f"Bearer {wrong}"}) as client:
            assert said not in (await client.get(LOOPS)).json()["detail"]


@pytest.mark.parametrize(
    ("scopes", "method", "path", "needed"),
    [
        (("read",), "POST", LOOPS, "operate"),
        (("answer",), "POST", f"{LOOPS}/x/pause", "operate"),
        (("read",), "DELETE", f"{LOOPS}/x", "operate"),
        (("read",), "PATCH", f"{LOOPS}/x", "operate"),
        (("operate",), "POST", f"{LOOPS}/x/gates/g1/answer", "answer"),
        (("execute",), "GET", LOOPS, "read"),
    ],
)
async def test_a_scope_is_needed(
    door: Rest, scopes: tuple[Scope, ...], method: str, path: str, needed: str
) -> None:
    async with door.caller(*scopes) as caller:
        body = {} if method in {"POST", "PATCH"} else None
        answer = await caller.request(method, path, json=body)
        told = problem(answer)
        assert refusal(answer) == (403, "insufficient_scope")
        assert needed in str(told["detail"])
        assert f'scope="{needed}"' in answer.headers["www-authenticate"]


EXECUTE = {
    "command": {
        "kind": "refine",
        "goal": "g",
        "rubric": [{"name": "c", "evaluator": {"check": "command", "argv": ["make"]}}],
    },
    "access": {"kind": "agent", "goal": "g", "tools": {"access": "full"}},
    "folder": {"kind": "agent", "goal": "g", "workspace": "/etc"},
}


@pytest.mark.parametrize("spec", EXECUTE.values(), ids=EXECUTE)
async def test_programs_and_strange_folders_need_execute(
    door: Rest, spec: dict[str, object]
) -> None:
    async with door.caller("operate") as caller:
        answer = await caller.post(LOOPS, json=spec)
        told = problem(answer)
        assert refusal(answer) == (403, "insufficient_scope")
        assert "execute" in str(told["detail"])
    assert await door.site.parts.stores.records.find_runs() == []


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_unknown_and_foreign_runs_are_not_found(door: Rest, method: str) -> None:
    for path in ("nobody-000000", "x/pause" if method == "POST" else "x", "@last", "a%00b"):
        if method == "POST" and not path.endswith("/pause"):
            path = f"{path}/pause"
        assert refusal(await door.client.request(method, f"{LOOPS}/{path}")) == (404, "not_found")


async def test_a_beginning_of_an_id_is_no_id(rest: Rest) -> None:
    run = await rest.start({"kind": "agent", "goal": "say it", "learn": False})
    assert refusal(await rest.client.get(f"{LOOPS}/{run[:-1]}")) == (404, "not_found")
    await rest.ended(run)


async def test_methods_and_paths_of_the_framework_are_problems_too(door: Rest) -> None:
    answer = await door.client.put(LOOPS, json={})
    assert refusal(answer) == (405, "method_not_allowed")
    assert answer.headers.get_list("allow") == ["GET, POST"]
    assert refusal(await door.client.get("/api/v1/loopz")) == (404, "not_found")


BODIES = {
    "no JSON": (b"{", "is not JSON"),
    "twice": (b'{"kind": "agent", "kind": "agent"}', "twice"),
    "not a number": (b'{"goal": NaN}', "NaN is a number that JSON does not know"),
    "too large a number": (b'{"goal": 1e999}', "1e999 is a number that JSON does not know"),
    "too deep": (b'{"context": {"x": ' + b"[" * 40 + b"]" * 40 + b"}}", "deeper than"),
    "bottomless": (b"[" * 100_000, "deeper than"),
    "NUL": (b'{"kind": "agent", "goal": "a\\u0000b"}', "NUL"),
    "surrogate": (b'{"kind": "agent", "goal": "a\\ud800b"}', "surrogate"),
    "not UTF-8": (b'{"goal": "\xff"}', "UTF-8"),
    "a list": (b"[]", "found []"),
    "nothing": (b"", "required"),
}


@pytest.mark.parametrize(("body", "words"), BODIES.values(), ids=BODIES)
async def test_a_bad_body_is_refused_with_its_reason(door: Rest, body: bytes, words: str) -> None:
    headers = {"content-type": "application/json"}
    answer = await door.client.post(LOOPS, content=body, headers=headers)
    told = problem(answer)
    assert refusal(answer) == (422, "invalid_input")
    assert words in answer.text
    assert told["errors"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", f"{LOOPS}/agent-x/pause"), ("GET", LOOPS), ("DELETE", f"{LOOPS}/agent-x")],
)
async def test_a_body_that_nobody_would_read_is_refused(door: Rest, method: str, path: str) -> None:
    def asked(body: bytes | None) -> Awaitable[httpx2.Response]:
        return door.client.request(method, path, content=body)

    answer = await asked(b'{"note": "x"}')
    assert refusal(answer) == (422, "invalid_input")
    assert f"{method} {path} takes none" in answer.text
    empty = [(await asked(body)).status_code for body in (None, b"", b" {} ")]
    assert empty == [empty[0]] * 3
    assert empty[0] != 422


OTHER_BODIES = {
    "application/yaml": ({"content-type": "application/yaml"}, "is application/yaml"),
    "text/plain": ({"content-type": "text/plain"}, "is text/plain"),
    "no type": ({}, "of no type"),
    "ends alike": ({"content-type": "notapplication/json"}, "is notapplication/json"),
    "no application": ({"content-type": "text/x+json"}, "is text/x\\+json"),
    "gzip": ({"content-type": "application/json", "content-encoding": "gzip"}, "with gzip"),
}


@pytest.mark.parametrize(("headers", "words"), OTHER_BODIES.values(), ids=OTHER_BODIES)
async def test_another_kind_of_body_is_refused(
    door: Rest, headers: dict[str, str], words: str
) -> None:
    answer = await door.client.post(LOOPS, content=b'{"kind": "agent"}', headers=headers)
    assert refusal(answer) == (415, "unsupported_media_type")
    assert re.search(words, str(problem(answer)["detail"]))


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/vnd.perdure+json; charset=utf-8"},
        {"content-type": "Application/JSON", "content-encoding": "identity"},
    ],
    ids=str,
)
async def test_json_under_other_names_is_read(door: Rest, headers: dict[str, str]) -> None:
    answer = await door.client.post(LOOPS, content=b'{"kind": "agent"}', headers=headers)
    assert refusal(answer) == (422, "invalid_input")
    assert "goal" in answer.text


async def test_health_answers_a_request_for_the_head_only(unmanned: Installation) -> None:
    async with served(unmanned) as door, door.caller() as nobody:
        for path in ("/healthz", "/readyz"):
            head, whole = await nobody.head(path), await nobody.get(path)
            assert (head.status_code, head.content) == (whole.status_code, b""), path


async def test_a_specification_is_refused_with_every_path(door: Rest) -> None:
    spec = {
        "kind": "refine",
        "goal": "g",
        "rubric": [{"name": "n", "evaluator": {"check": "contains", "al": ["x"]}}],
        "budget": {"tokens": -1},
        "context": {"secret": "file: secrets.txt"},
        "models": {"executor": "scripted:play.yaml"},
    }
    answer = await door.client.post(LOOPS, json=spec)
    told = problem(answer)
    assert refusal(answer) == (422, "invalid_input")
    errors = told["errors"]
    assert isinstance(errors, list)
    assert {error["path"] for error in errors} >= {
        "budget.tokens",
        "context.secret",
        "models.executor",
        "rubric[0].evaluator.al",
    }


@pytest.mark.parametrize(
    "query",
    ["status=' OR 1=1", "kind=nothing", "limit=0", "limit=201", "outcome=good", "cursor=abc",
     "label=a'b", "cursor=" + "A" * 40],
)  # fmt: skip
async def test_a_filter_is_a_known_word_or_refused(door: Rest, query: str) -> None:
    assert refusal(await door.client.get(f"{LOOPS}?{query}")) == (422, "invalid_input")


@pytest.mark.long
async def test_without_a_worker_nothing_is_started(door: Rest) -> None:
    headers = {"idempotency-key": "k"}
    spec = {"kind": "agent", "goal": "say it"}
    answer = await door.client.post(LOOPS, json=spec, headers=headers)
    told = problem(answer)
    assert refusal(answer) == (503, "no_ready_worker")
    assert "perdure worker" in str(told["cure"])
    assert answer.headers["retry-after"]
    async with door.site.worker():
        again = await door.client.post(LOOPS, json=spec, headers=headers)
        assert again.status_code == 201, again.text
        await door.ended(again.json()["id"])


async def test_a_token_that_asks_too_often_waits(unmanned: Installation) -> None:
    rules = ApiRules(rate_per_minute=3)
    async with served(unmanned, rules) as door:
        answers = [await door.client.get(LOOPS) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert refusal(answers[-1]) == (429, "too_many_requests")
        assert int(answers[-1].headers["retry-after"]) > 0
        async with door.caller("read") as other:
            assert (await other.get(LOOPS)).status_code == 200


async def test_a_long_body_is_refused_unread(unmanned: Installation) -> None:
    async with served(unmanned, ApiRules(body_bytes=1024)) as door:
        spec = {"kind": "agent", "goal": "x" * 2_000}
        assert refusal(await door.client.post(LOOPS, json=spec)) == (413, "body_too_large")


@pytest.mark.long
async def test_a_defect_tells_nothing_of_itself(
    door: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("the password is 1234")

    monkeypatch.setattr(door.api.services.gateway, "count", broken)
    answer = await door.client.get(f"{LOOPS}/active/count")
    assert refusal(answer) == (500, "internal")
    assert "1234" not in answer.text


async def test_a_broken_store_is_a_problem_at_the_door(
    door: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise StoreError("The database is away.")

    monkeypatch.setattr(door.api.services.access, "token", broken)
    assert refusal(await door.client.get(LOOPS)) == (503, "store_error")


async def test_pages_of_others_are_not_let_in(unmanned: Installation) -> None:
    asked = {"origin": "https://page.test", "access-control-request-method": "GET"}
    async with served(unmanned) as door:
        answer = await door.client.get(LOOPS, headers={"origin": "https://page.test"})
        assert "access-control-allow-origin" not in answer.headers
    rules = ApiRules(origins=("https://page.test",))
    async with served(unmanned, rules) as door, door.caller() as browser:
        answer = await browser.options(LOOPS, headers=asked)
        assert answer.headers["access-control-allow-origin"] == "https://page.test"
        other = await browser.options(LOOPS, headers={**asked, "origin": "https://evil.test"})
        assert "access-control-allow-origin" not in other.headers


async def test_metrics_and_document_are_public_only_when_told(unmanned: Installation) -> None:
    rules = ApiRules(public=frozenset({"docs", "metrics"}))
    async with served(unmanned, rules) as door, door.caller() as nobody:
        assert "perdure_runs" in (await nobody.get("/metrics")).text
        assert (await nobody.get("/api/v1/openapi.json")).json()["openapi"].startswith("3.")
        assert refusal(await nobody.get(LOOPS)) == (401, "unauthorized")


@pytest.mark.parametrize(
    ("host", "alone"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("10.1.2.3", False), ("example.org", False)],
)  # fmt: skip
def test_loopback_is_known(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone


async def test_it_listens_elsewhere_only_with_a_token(unmanned: Installation) -> None:
    api = api_site(unmanned)
    await require_token_beyond_loopback(api, "127.0.0.1")
    with pytest.raises(NotAllowed, match=r"on 0\.0\.0\.0 until there is a token\."):
        await require_token_beyond_loopback(api, "0.0.0.0")
    await token_of(api, "read", expires_at=api.now())
    with pytest.raises(NotAllowed, match=r"a token that is usable: those that it knows have exp"):
        await require_token_beyond_loopback(api, "0.0.0.0")
    await token_of(api, "read")
    await require_token_beyond_loopback(api, "0.0.0.0")
