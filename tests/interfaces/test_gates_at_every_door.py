"""Each kind of gate, each verb, each door: nothing but `answer` settles a question."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import get_args

import httpx2
import pytest
from agent_runs import call, calls
from installation import Installation
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.types import ElicitRequestParams, ElicitResult
from mcp_over_http import remote, serving, token
from mcp_over_http import told as mcp_told
from refining import draft, spec, written
from rest import served, services_of
from stages import open_gate
from teams import PAIR, says, script, team
from teams import task as roles_task

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.installation.access import ApiToken
from perdure.domain.run.events import Event
from perdure.domain.run.gates import GateKind
from perdure.domain.run.loop_api import ACTIONS, LoopControlled
from perdure.domain.run.messages import EventsQuery
from perdure.domain.run.spec import STARTED_BY
from perdure.interfaces.loop_service import LoopService
from perdure.interfaces.mcp.handler import Desk
from perdure.interfaces.mcp.runs import BY
from perdure.interfaces.mcp.server import build_server
from perdure.submission.types import Surroundings
from tests.interfaces.mcp.conftest import door_over

CALLER = "agent-that-started-it"
LIKED = {"name": "liked", "description": "fit to send", "evaluator": {"human": {}}}
AGENT = {"kind": "agent", "goal": "do it", "learn": False}
WRITE = calls(call("fs.write", path="a.txt", content="x", expected_hash="absent"))
SCENES: dict[GateKind, tuple[Mapping[str, object], Mapping[str, object]]] = {
    "question": (
        AGENT | {"tools": {"allow": ["human.ask"]}},
        {"replies": [calls(call("human.ask", question="Tea?")), {"text": "done"}]},
    ),
    "tool_approval": (
        AGENT | {"tools": {"access": "full", "approve": ["fs.write"]}},
        {"replies": [WRITE, {"text": "done"}]},
    ),
    "budget": (
        {**spec(max_iterations=2), "budget": {"model_calls": 1, "on_exhausted": "ask"}},
        {"replies": written(draft(0.2, "a"), draft(0.2, "b"))},
    ),
    "escalation": (spec(escalate_below=0.3), {"replies": written(draft(0.2, "a"))}),
    "review": (spec([LIKED], max_iterations=1), {"replies": written("a draft")}),
    "blocked": (roles_task(team(*PAIR)), script([says("coder", "BLOCKED: no access", times=9)])),
}
WORDS: Mapping[str, Mapping[str, object]] = {
    "retry": {"note": "retry"},
    "escalate": {"note": "approve"},
    "amend": {"guidance": "approve"},
    "input": {"text": "approve"},
}
ANSWERS: Mapping[GateKind, Mapping[str, str]] = {
    "question": {"text": "green"},
    "tool_approval": {"choice": "approve"},
    "budget": {"choice": "end"},
    "escalation": {"choice": "accept", "text": ""},
    "review": {"text": "liked=0.9"},
    "blocked": {"choice": "end", "text": ""},
}
# Whose token lacks the scope is not asked; who is asked may leave the question.
WAITERS = ((("operate", "read"), True, 0), (("read", "answer"), False, 1))
SIGNALS = {"retry", "escalate", "amend", "add_input", "pause", "resume"}


@pytest.mark.long
@pytest.mark.parametrize("kind", get_args(GateKind))
async def test_no_verb_but_answer_settles_a_gate(site: Installation, kind: GateKind) -> None:
    given, replies = SCENES[kind]
    run = await site.start({**given, "metadata": {STARTED_BY: CALLER}}, replies)
    asked = await open_gate(site, run)
    assert asked.kind == kind

    async def settled() -> bool:
        status = await site.status(run)
        answered = {event.type for event in status.events} & {"gate_answered"}
        return status.gates != (asked,) or bool(answered)

    async with served(site) as door, door.caller("operate") as operator:
        for verb in ("retry", "escalate", "amend", "input", "pause", "resume"):
            answer = await operator.post(f"{_of(run)}/{verb}", json=WORDS.get(verb))
            assert not await settled(), f"REST {verb}: {answer.status_code}"
        assert (await _answered(operator, run, asked.id)).status_code == 403
        assert not await settled()
    for name, steer in _desks(site).items():
        for action in (action for action in ACTIONS if action != "stop"):
            for target in (run, "all"):
                await _tried(steer, action, target)
                assert not await settled(), f"{name} {action} {target}"
    async with serving(door_over(site, tokens=True)) as url:
        for scopes, accepts, asked_times in WAITERS:
            person = AtClient(ANSWERS[kind], accepts=accepts)
            text = await token(door_over(site), *scopes)
            async with remote(url, text, person=person) as client:
                await mcp_told(client, "run_wait", id=run, seconds=5)
            assert len(person.asked) == asked_times, f"elicitation with {scopes}"
            assert not await settled(), f"elicitation with {scopes}"
    for signal in sorted(SIGNALS):
        words = WORDS.get(signal.removeprefix("add_"), {})
        await site.handle(run).signal(signal, words)
        assert not await settled(), f"signal {signal}"
    await site.handle(run).signal("stop", {"mode": "now"})
    result = await site.gateway.result(run)
    assert result.outcome == "stopped"
    noted = {event.type for event in (await site.status(run)).events}
    assert not noted & {"gate_answered", "tool_started"}


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[] if kind == "tool_approval" else pytest.mark.slow)
        for kind in get_args(GateKind)
    ],
)
async def test_the_person_at_a_client_settles_a_gate(site: Installation, kind: GateKind) -> None:
    given, replies = SCENES[kind]
    run = await site.start(given, replies)
    asked = await open_gate(site, run)
    person = AtClient(ANSWERS[kind])
    async with Client(build_server(door_over(site).mcp), elicitation_callback=person) as client:
        await mcp_told(client, "run_wait", id=run, seconds=60)
    assert f"({asked.name}): {asked.prompt[:40]}" in person.asked[0]
    result = await site.gateway.result(run)
    told = await site.handle(run).query("events", EventsQuery(), result_type=list[Event])
    (answered,) = [event for event in told if event.type == "gate_answered"]
    assert (answered.data["gate"], answered.data["by"]) == (asked.name, BY)
    assert result.outcome in {"accepted", "out_of_budget", "blocked"}


class AtClient:
    """Somebody at an MCP client, and what they do with the form that it shows."""

    def __init__(self, said: Mapping[str, str], *, accepts: bool = True) -> None:
        self.asked: list[str] = []
        self._said, self._accepts = said, accepts

    async def __call__(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult:
        self.asked.append(params.message)
        if not self._accepts:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={**self._said})


def _of(run: str) -> str:
    return f"/api/v1/loops/{run}"


async def _answered(caller: httpx2.AsyncClient, run: str, gate: str) -> httpx2.Response:
    return await caller.post(f"{_of(run)}/gates/{gate}/answer", json={"text": "retry"})


Steer = Callable[[str, str], Awaitable[LoopControlled]]


def _desks(site: Installation) -> Mapping[str, Steer]:
    """Who steers loops: a program at the MCP door with a token, and an agent's own tool."""
    services = services_of(site)
    loops = LoopService(
        gateway=services.gateway,
        definitions_kept=services.definitions(),
        records=services.records,
        blobs=services.blobs,
        journal=services.journal,
        surroundings=Surroundings(folder=None, default_model=site.parts.default_model),
        by="tester",
    )
    now = datetime.now(UTC)
    token = ApiToken(id="0" * 8, name="t", scopes=("operate",), digest="", created_at=now)
    desk = Desk(services=services, loops=loops, token=token, now=now)
    return {"MCP": desk.control, "agent": partial(loops.control, caller=CALLER)}


async def _tried(steer: Steer, action: str, run: str) -> None:
    """Ask, whatever comes of it: a refusal is as good as a verb that settles nothing."""
    with contextlib.suppress(PerdureError):
        await steer(action, run)
