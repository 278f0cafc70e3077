"""What an attacker with a token, or without one, tries at the REST door; each line of the spec."""

import hmac
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import get_args

import httpx2
import pytest
from installation import Installation
from rest import APPROVED, ASKING, TASK, WRITTEN, Rest, client_of, scripted, served
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.installation.access import ApiToken, IdempotencyRecord, Scope
from perdure.domain.tools.definitions import arguments_hash
from perdure.interfaces.rest.app import ROUTERS
from perdure.interfaces.rest.settings import ApiRules

LOOPS = "/api/v1/loops"
RUN = f"{LOOPS}/{{run}}"
DEFINITIONS = f"{LOOPS}/definitions"
TASKS = "/api/v1/tasks"
LIBRARY = "/api/v1/library/{shelf}"
ENTRY = f"{LIBRARY}/{{entry}}"
OPEN = {"/healthz", "/readyz"}
EXPERIMENTS = "/api/v1/experiments"
EXPERIMENT = f"{EXPERIMENTS}/{{experiment}}"
SCHEDULES = "/api/v1/schedules"
SCHEDULE = f"{SCHEDULES}/{{schedule}}"
READ = {
    (f"{RUN}{rest}")
    for rest in (
        "", "/result", "/costs", "/transcript", "/history", "/iterations", "/metrics", "/events",
        "/iterations/{iteration}", "/iterations/{iteration}/calls", "/artifacts/{ref}",
        "/iterations/{iteration}/attachments/{ref}",
        "/artifacts",
        "/gates/{gate}", "/best", "/explanation", "/specification", "/stream", "/tree",
    )
} | {LOOPS, f"{LOOPS}/active/count", "/api/v1/gates", DEFINITIONS, f"{DEFINITIONS}/{{name}}",
     TASKS, f"{TASKS}/{{name}}",
     "/metrics", "/api/v1/costs", LIBRARY, ENTRY,
     EXPERIMENTS, EXPERIMENT, f"{EXPERIMENT}/report", SCHEDULES, SCHEDULE}  # fmt: skip
VERBS = ("pause", "resume", "stop", "retry", "escalate", "amend", "input", "fork")
OPERATE = {("POST", f"{RUN}/{verb}") for verb in VERBS} | {
    ("POST", LOOPS),
    ("POST", f"{LOOPS}/plan"),
    ("PATCH", RUN),
    ("DELETE", RUN),
    ("POST", DEFINITIONS),
    ("PUT", f"{DEFINITIONS}/{{name}}"),
    ("DELETE", f"{DEFINITIONS}/{{name}}"),
    ("POST", f"{ENTRY}/approve"),
    ("POST", f"{ENTRY}/reject"),
    ("POST", f"{ENTRY}/forget"),
    ("POST", EXPERIMENTS),
    ("POST", f"{EXPERIMENTS}/plan"),
    ("DELETE", EXPERIMENT),
    *(("POST", f"{EXPERIMENT}/{verb}") for verb in ("pause", "resume", "stop", "inputs")),
    ("POST", SCHEDULES),
    ("DELETE", SCHEDULE),
    *(("POST", f"{SCHEDULE}/{verb}") for verb in ("pause", "resume", "trigger")),
}
NEEDED: dict[tuple[str, str], Scope] = {
    **{("GET", path): "read" for path in READ},
    **dict.fromkeys(OPERATE, "operate"),
    ("POST", f"{RUN}/gates/{{gate}}/answer"): "answer",
    ("GET", "/api/v1/audit"): "admin",
    ("GET", "/api/v1/audit.jsonl"): "admin",
    ("GET", "/api/v1/notices"): "admin",
    ("POST", "/api/v1/notices/{notice}/resend"): "admin",
    ("GET", f"{RUN}/erase"): "admin",
    ("POST", f"{RUN}/erase"): "admin",
}
NAMES = {"run": "x", "gate": "g1", "iteration": "1", "ref": "r", "name": "n",
         "shelf": "skill", "entry": "x", "experiment": "x", "schedule": "x",
         "notice": "x"}  # fmt: skip
COMMAND = {"name": "c", "evaluator": {"check": "command", "argv": ["make"]}}
MINE = {
    "name": "mine",
    "roles": [{"role": "writer", "prompt": "Write."}],
    "termination_condition": {"type": "iteration_bound", "iterations": 1},
}


def operations() -> set[tuple[str, str]]:
    return {
        (method, route.path)  # type: ignore[attr-defined]
        for router in ROUTERS
        for route in router.routes
        for method in route.methods  # type: ignore[attr-defined]
        if route.path not in OPEN  # type: ignore[attr-defined]
    }


@pytest.mark.long
async def test_every_operation_needs_its_scope_and_no_other_opens_it(door: Rest) -> None:
    assert set(NEEDED) == operations()
    for scope in get_args(Scope):
        async with door.caller(scope) as caller:
            grants = ApiToken.model_construct(scopes=(scope,)).grants
            for (method, path), needed in NEEDED.items():
                body = {} if method in {"POST", "PUT", "PATCH"} else None
                answer = await caller.request(method, path.format(**NAMES), json=body)
                told = f"{scope}: {method} {path}: {answer.status_code}"
                assert (answer.status_code == 403) is (needed not in grants), told


async def test_no_operation_answers_without_a_token(door: Rest) -> None:
    async with door.caller() as nobody:
        for method, path in NEEDED:
            answer = await nobody.request(method, path.format(**NAMES))
            assert answer.status_code == 401, (method, path)


async def test_tokens_are_compared_in_constant_time_known_or_not(
    door: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = await door.token("read")
    known, secret = text.split("_", 2)[1:]
    compared: list[int] = []
    real = hmac.compare_digest

    def counted(left: str, right: str) -> bool:
        compared.append(len(left))
        return real(left, right)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    wrong = ("A" if secret[0] != "A" else "B") + secret[1:]
    stranger = "0" * 8 if known != "0" * 8 else "1" * 8
    for guess in (f"perdure_{known}_{wrong}", f"perdure_{stranger}_{secret}"):
        async with client_of(door.url, {"authorization": f"Bearer {guess}"}) as client:
            assert (await client.get(LOOPS)).status_code == 401
    assert compared == [64, 64] * 2, "the secret of before is compared too, whether there is one"


async def test_who_guesses_tokens_is_slowed(unmanned: Installation) -> None:
    async with served(unmanned, ApiRules(rate_per_minute=3)) as door:
        wrong = {"authorization": "Bearer perdure_00000000_" + "A" * 43}
        async with client_of(door.url, wrong) as client:
            codes = [(await client.get(LOOPS)).status_code for _ in range(5)]
        assert codes == [401, 401, 401, 429, 429]
        assert (await door.client.get(LOOPS)).status_code == 200  # others are not


BODIES: Mapping[tuple[str, str], Mapping[str, object]] = {
    ("POST", LOOPS): TASK,
    ("POST", f"{LOOPS}/plan"): TASK,
    ("PATCH", RUN): {"label": "x"},
    ("POST", f"{RUN}/stop"): {"mode": "now"},
    ("POST", f"{RUN}/retry"): {"note": "x"},
    ("POST", f"{RUN}/escalate"): {"note": "x"},
    ("POST", f"{RUN}/amend"): {"guidance": "x"},
    ("POST", f"{RUN}/input"): {"text": "x"},
    ("POST", f"{RUN}/fork"): {"iteration": 1},
    ("POST", f"{RUN}/gates/{{gate}}/answer"): {"choice": "approve"},
    ("POST", f"{ENTRY}/approve"): {"name": "x"},
    ("POST", EXPERIMENTS): {"task": TASK, "inputs": ["x"], "score": {"check": "contains"}},
    ("POST", f"{EXPERIMENTS}/plan"): {
        "task": TASK,
        "inputs": ["x"],
        "score": {"check": "contains"},
    },
    ("POST", f"{EXPERIMENT}/resume"): {"cost_usd": 1},
    ("POST", f"{EXPERIMENT}/stop"): {"mode": "now"},
    ("POST", f"{EXPERIMENT}/inputs"): {"inputs": ["x"]},
    ("POST", SCHEDULES): {"name": "n", "task": TASK, "times": {"every_s": 3600}},
    ("POST", f"{SCHEDULE}/pause"): {"note": "x"},
    ("POST", f"{SCHEDULE}/resume"): {"note": "x"},
    ("POST", DEFINITIONS): MINE,
    ("PUT", f"{DEFINITIONS}/{{name}}"): {**MINE, "name": "n"},
}


@pytest.mark.long
async def test_no_body_takes_a_field_that_it_does_not_have(door: Rest) -> None:
    paths = (await door.client.get("/api/v1/openapi.json")).json()["paths"]
    told = {
        (method.upper(), path)
        for path, item in paths.items()
        for method, operation in item.items()
        if "requestBody" in operation
    }
    assert told == set(BODIES)
    headers = {"if-none-match": "*", "if-match": '"x"'}
    for (method, path), body in BODIES.items():
        for field in ("status", "spend", "outcome"):
            answer = await door.client.request(
                method, path.format(**NAMES), json={**body, field: 0}, headers=headers
            )
            # Which definition is meant comes before what it becomes.
            wanted = 404 if method == "PUT" else 422
            assert answer.status_code == wanted, (method, path, answer.text)
            assert wanted == 404 or field in answer.text


@pytest.mark.long
async def test_no_page_is_larger_than_allowed(door: Rest) -> None:
    paths = (await door.client.get("/api/v1/openapi.json")).json()["paths"]
    lists = [
        path
        for path, item in paths.items()
        if any(one["name"] == "limit" for one in item.get("get", {}).get("parameters", ()))
    ]
    assert len(lists) >= 6
    for path in lists:
        for limit in ("0", "201", "-1", "1e9"):
            answer = await door.client.get(path.format(**NAMES), params={"limit": limit})
            assert answer.status_code == 422, (path, limit)


@pytest.mark.parametrize("field", ["status", "kind", "outcome", "phase", "label", "root", "cursor"])
@pytest.mark.parametrize("value", ["x' OR 'a'='a", 'x" OR "a"="a', "x') OR (1=1", "\\'", "x;--"])
async def test_no_filter_carries_a_query(door: Rest, field: str, value: str) -> None:
    answer = await door.client.get(LOOPS, params={field: value})
    assert answer.status_code in {404, 422} or answer.json()["items"] == [], answer.text


@pytest.mark.long
async def test_a_body_without_a_length_is_bounded_too(unmanned: Installation) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'{"kind": "agent", "goal": "'
        while sent < 1_000_000:  # the client sends all before it reads an answer
            sent += 1_000
            yield b"x" * 1_000

    async with served(unmanned, ApiRules(body_bytes=4_096)) as door:
        headers = {"content-type": "application/json"}
        try:
            answer = await door.client.post(LOOPS, content=endless(), headers=headers)
        except httpx2.TransportError:
            pass  # it closed while this side still sent, and the answer was lost with that
        else:
            assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", f"{LOOPS}/x/amend", {"rubric": [COMMAND]}),
        ("POST", DEFINITIONS, {**MINE, "roles": [{"role": "w", "prompt": "p", "access": "full"}]}),
        ("PUT", f"{DEFINITIONS}/mine", {**MINE, "roles": [{"role": "w", "tools": ["shell.*"]}]}),
        ("POST", LOOPS, TASK | {"tools": {"allow": ["loop_start"]}}),
        ("POST", LOOPS, {"kind": "delegation", "goal": "g", "delegation": {"smoke_test": ["a"]}}),
    ],
    ids=["amended rubric", "new definition", "changed definition", "loops", "smoke test"],
)
async def test_no_way_round_the_scope_execute(
    door: Rest, method: str, path: str, body: dict[str, object]
) -> None:
    headers = {"if-none-match": "*"} if method == "POST" else {"if-match": '"x"'}
    async with door.caller("operate") as caller:
        answer = await caller.request(method, path, json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
        assert "execute" in answer.json()["detail"]
    async with door.caller("operate", "execute") as trusted:
        answer = await trusted.request(method, path, json=body, headers=headers)
        assert answer.status_code != 403, answer.text


async def gate_of(rest: Rest, run: str) -> dict[str, object]:
    """The run's open question."""
    found: list[dict[str, object]] = []

    async def waits() -> bool:
        found[:] = (await rest.client.get(f"{LOOPS}/{run}")).json()["gates"]
        return bool(found)

    await eventually(waits)
    return found[0]


async def stopped(rest: Rest, run: str) -> None:
    await rest.client.post(f"{LOOPS}/{run}/stop", json={"mode": "now"})
    await rest.ended(run)


@pytest.mark.long
async def test_runs_of_another_installation_do_not_exist(
    asking: Rest, server: WorkflowEnvironment, tmp_path: Path
) -> None:
    run = await asking.start(APPROVED)
    await gate_of(asking, run)
    address = server.client.service_client.config.target_host
    async with scripted(tmp_path / "other", address, ASKING) as site, served(site) as other:
        for method, path in NEEDED:
            if "{run}" not in path:
                continue
            body = BODIES.get((method, path))
            answer = await other.client.request(
                method, path.format(**{**NAMES, "run": run}), json=body
            )
            assert answer.status_code == 404, (method, path, answer.text)

        async def listed() -> bool:
            items = (await asking.client.get(LOOPS)).json()["items"]
            gates = (await asking.client.get("/api/v1/gates")).json()["items"]
            return any(item["id"] == run for item in items) and bool(gates)

        await eventually(listed)
        for path in (LOOPS, "/api/v1/gates"):
            assert run not in (await other.client.get(path)).text
    await stopped(asking, run)


async def test_who_started_the_run_above_does_not_approve(asking: Rest) -> None:
    run = await asking.start(APPROVED)
    gate = await gate_of(asking, run)
    services = asking.api.services
    started = await services.access.started_by(run)
    row = await services.records.run(run)
    assert started is not None and row is not None
    # As if a manager had started it: the request stands beside the run above.
    await services.access.forget_start(run)
    above = row.model_copy(update={"id": "delegation-above-000000"})
    await services.records.put_run(above)
    await services.records.put_run(row.model_copy(update={"parent": above.id}))
    await services.access.claim_start(
        IdempotencyRecord(run=above.id, token=started.token, at=started.at)
    )
    path = f"{LOOPS}/{run}/gates/{gate['id']}/answer"
    approve = {"choice": "approve", "args_hash": gate["args_hash"]}
    own = await asking.client.post(path, json=approve)
    assert (own.status_code, own.json()["code"]) == (403, "own_run")
    early = await asking.client.post(f"{LOOPS}/{run}/gates/g2/answer", json=approve)
    assert early.status_code == 404
    assert (await asking.client.post(path, json={"choice": "deny"})).status_code == 200
    await stopped(asking, run)


@pytest.mark.long
async def test_the_server_decides_what_is_too_late(asking: Rest) -> None:
    late = {"gates": {"timeout_s": 1, "on_expiry": "default:deny"}}
    run = await asking.start(APPROVED | late)
    await asking.ended(run)
    async with asking.caller("answer") as other:
        answer = await other.post(
            f"{LOOPS}/{run}/gates/g1/answer",
            json={"choice": "approve", "args_hash": arguments_hash("fs.write", WRITTEN)},
            headers={"date": "Thu, 01 Jan 2026 00:00:00 GMT"},
        )
        assert answer.status_code == 409, answer.text
    first, *_ = await asking.site.records(run)
    assert [call.outcome for call in first.calls] == ["denied"]


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "localhost."]
)
async def test_a_page_that_points_its_name_here_gets_nothing(door: Rest, host: str) -> None:
    for path in (LOOPS, "/healthz", "/api/v1/openapi.json"):
        answer = await door.client.get(path, headers={"host": host})
        assert (answer.status_code, answer.json()["code"]) == (421, "misdirected_request")
    named = {"host": "localhost:9"}
    assert (await door.client.get(LOOPS, headers=named)).status_code == 200
