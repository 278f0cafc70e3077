"""Runs of every kind over MCP: started, waited for with a person, and read."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from agent_runs import call, calls
from delegating import completes, delegates, delegation, script, works
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.server.elicitation import render_elicitation_schema
from mcp.types import ElicitRequestParams, ElicitResult, InputRequiredResult
from mcp_over_http import remote, serving, token, told
from pydantic import JsonValue

from perdure.activities import run_lifecycle
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.ports import BlobStore
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import Answer
from perdure.domain.run.status import RunStatus
from perdure.gateway import run_reader
from perdure.interfaces.definitions import definitions
from perdure.interfaces.mcp.runs import INPUT_REQUIRED, form_of, task_fields, wait
from perdure.interfaces.mcp.server import build_server
from tests.interfaces.mcp.conftest import Door

ASKING = {
    "replies": [
        {"tool_calls": [{"name": "human.ask", "arguments": {"question": "Which colour?"}}]},
        {"text": "It is as you said."},
    ]
}


class Person:
    """Somebody at an MCP client, who answers what the client shows."""

    def __init__(self, action: str = "accept") -> None:
        self.asked: list[str] = []
        self._action = action

    async def __call__(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult:
        self.asked.append(params.message)
        if self._action == "accept":
            return ElicitResult(action="accept", content={"text": "blue"})
        return ElicitResult(action="decline")


async def asking(door: Door) -> str:
    """A run that asks a person."""
    return await door.site.start(
        {"kind": "agent", "goal": "choose", "tools": {"access": "readonly"}}, ASKING
    )


async def test_a_run_of_any_kind_is_started_waited_for_and_read(door: Door) -> None:
    script = await door.site.script({"replies": [{"text": "Iron oxide.", "times": 9}]})
    async with Client(build_server(door.mcp)) as client:
        started = await told(
            client, "run_start", goal="What is rust?", settings={"models": {"executor": script}}
        )
        status = await told(client, "run_wait", id=started["id"], seconds=60)
        result = await told(client, "run_result", id=started["id"])
    assert (status["kind"], status["outcome"]) == ("agent", "accepted")
    assert (result["output"], result["iterations"]) == ("Iron oxide.", [])


async def test_who_waited_for_the_end_can_read_the_result(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run says that it ended before its result is stored, for which a store may take long."""
    storing, go_on, real = asyncio.Event(), asyncio.Event(), run_lifecycle.inline_output

    async def slow(blobs: BlobStore, address: str | None, limit: int) -> tuple[str | None, bool]:
        storing.set()
        await go_on.wait()
        return await real(blobs, address, limit)

    monkeypatch.setattr(run_lifecycle, "inline_output", slow)
    run = await door.site.start(
        {"kind": "agent", "goal": "answer"}, {"replies": [{"text": "Iron oxide."}]}
    )
    async with Client(build_server(door.mcp)) as client:
        await storing.wait()
        assert (await told(client, "run_wait", id=run, seconds=60))["phase"] == "ended"
        monkeypatch.setattr(run_reader, "STORED_S", 0.1)
        assert "its result is not stored yet" in await told(client, "run_result", id=run)
        monkeypatch.setattr(run_reader, "STORED_S", 60.0)
        asked = asyncio.create_task(told(client, "run_result", id=run))
        await asyncio.wait({asked}, timeout=0.5)
        assert not asked.done()
        go_on.set()
        assert (await asked)["output"] == "Iron oxide."


async def test_every_ready_made_task_is_listed_and_asks_for_its_inputs(door: Door) -> None:
    async with Client(build_server(door.mcp)) as client:
        found = await told(client, "run_tasks")
        wanting = next(task for task in found["tasks"] if task["inputs"])
        refused = await told(client, "run_start", task=wanting["name"])
    assert {task["name"] for task in found["tasks"]} == {one.name for one in definitions()}
    assert f"context.{wanting['inputs'][0]}" in refused


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("run_start", {}, "goal: found nothing"),
        ("run_start", {"task": "code-chagne"}, "Did you mean code-change?"),
        ("run_start", {"goal": "x", "settings": {"budgt": {}}}, "budgt"),
        ("run_start", {"goal": "x", "kind": "agnet"}, "kind"),
        ("run_result", {"id": "nobody"}, "nobody"),
        ("run_wait", {"id": "nobody"}, "nobody"),
    ],
)
async def test_what_is_refused_says_what_to_do(
    door: Door, tool: str, arguments: dict[str, object], said: str
) -> None:
    async with Client(build_server(door.mcp)) as client:
        assert said in str(await told(client, tool, **arguments))


async def test_a_question_reaches_the_person_at_the_client(door: Door) -> None:
    run, person = await asking(door), Person()
    async with Client(build_server(door.mcp), elicitation_callback=person) as client:
        status = await told(client, "run_wait", id=run, seconds=60)
    assert len(person.asked) == 1
    assert "Which colour?" in person.asked[0]
    assert status["outcome"] == "accepted"


@pytest.mark.parametrize("person", [None, Person("decline")], ids=["cannot-ask", "declined"])
async def test_a_question_that_nobody_answers_stays_open(door: Door, person: Person | None) -> None:
    run = await asking(door)
    async with Client(build_server(door.mcp), elicitation_callback=person) as client:
        status = await told(client, "run_wait", id=run, seconds=60)
        early = await told(client, "run_result", id=run)
    assert [gate["kind"] for gate in status["gates"]] == ["question"]
    assert "has not ended yet" in early
    await door.site.handle(run).terminate()


@pytest.mark.long
@pytest.mark.parametrize(
    ("scopes", "asked"), [(("operate",), 0), (("operate", "answer"), 1)], ids=["operate", "answer"]
)
async def test_over_http_only_a_token_with_the_scope_asks(
    guarded: Door, scopes: tuple[str, ...], asked: int
) -> None:
    run, person = await asking(guarded), Person()
    text = await token(guarded, *scopes)
    async with serving(guarded) as url, remote(url, text, person=person) as client:
        status = await told(client, "run_wait", id=run, seconds=60)
    assert len(person.asked) == asked
    assert (status["outcome"] == "accepted") == bool(asked)
    if not asked:
        await guarded.site.handle(run).terminate()


async def test_over_http_nothing_dangerous_starts_without_the_scope(guarded: Door) -> None:
    text = await token(guarded, "operate")
    dangerous = {"tools": {"access": "full"}, "workspace": "/"}
    async with serving(guarded) as url, remote(url, text) as client:
        refused = await told(client, "run_start", goal="x", settings=dangerous)
        file = await told(
            client, "run_start", goal="x", settings={"context": {"a": "file:/etc/passwd"}}
        )
    assert "takes the scope execute" in refused
    assert "id" not in file, file


@pytest.mark.parametrize(
    ("choices", "free_text", "fields"),
    [
        ((), True, {"text"}),
        (("approve", "deny"), False, {"choice"}),
        (("continue", "stop"), True, {"choice", "text"}),
    ],
)
def test_a_form_has_what_the_question_wants(
    choices: tuple[str, ...], free_text: bool, fields: set[str]
) -> None:
    gate = Gate.model_validate(
        {
            "id": "g1",
            "kind": "question",
            "prompt": "?",
            "choices": choices,
            "opened_at": "2026-01-01T00:00:00Z",
            "free_text": free_text,
        }
    )
    form = form_of(gate)
    # To clients of the newest protocol, and to older ones.
    for schema in (form.model_json_schema(), render_elicitation_schema(form)):
        assert set(schema["properties"]) == fields
        if choices:
            assert schema["properties"]["choice"]["enum"] == list(choices)
            assert "default" not in schema["properties"]["choice"]
        named = "choice" if choices else "text"
        assert (named in schema.get("required", ())) is not (bool(choices) and free_text)
    if choices and free_text:
        assert form.model_validate({"text": "neither"}).model_dump()["choice"] == ""


def test_what_is_no_question_wants_a_choice_whatever_is_said() -> None:
    gate = Gate.model_validate(
        {
            "id": "g1",
            "kind": "escalation",
            "prompt": "?",
            "choices": ("continue", "stop"),
            "opened_at": "2026-01-01T00:00:00Z",
            "free_text": True,
        }
    )
    assert form_of(gate).model_json_schema()["required"] == ["choice"]


def test_what_is_said_wins_over_the_ready_made_task() -> None:
    name = next(one.name for one in definitions() if one.inputs)
    fields = task_fields(
        goal="mine", kind=None, task=name, settings={"context": {"added": "x"}, "learn": False}
    )
    assert (fields["goal"], fields["learn"]) == ("mine", False)
    context = fields["context"]
    assert isinstance(context, dict)
    assert len(context) > 1
    with pytest.raises(InvalidInput, match="found nothing"):
        task_fields(goal=None, kind="agent", task=None, settings={})


def test_a_setting_changes_one_field_of_a_block_and_keeps_the_others() -> None:
    given = task_fields(goal=None, kind=None, task="code-change", settings={})
    said: dict[str, JsonValue] = {
        "refine": {"max_iterations": 2},
        "budget": {"cost_usd": 1},
        "models": {"executor": "local"},
        "tools": {"approve": ["fs.*"]},
    }
    fields = task_fields(goal=None, kind=None, task="code-change", settings=said)
    assert isinstance(given["refine"], dict) and given["refine"].keys() > {"max_iterations"}
    for name, block in given.items():
        changes = said.get(name)
        if isinstance(block, dict) and isinstance(changes, dict):
            assert fields[name] == {**block, **changes}
        else:
            assert fields[name] == block


async def test_a_reply_reaches_its_question_behind_another_one() -> None:
    asked = {"kind": "question", "prompt": "?", "opened_at": "2026-01-01T00:00:00Z"}
    asked |= {"choices": ("red", "green"), "free_text": True}
    gates = [Gate.model_validate({**asked, "id": id}) for id in ("g1", "g2", "g3")]
    common = {"id": "r", "kind": "agent", "goal": "g", "phase": "working", "lifecycle": "waiting"}
    status = RunStatus.model_validate({**common, "budget": {"limits": {}}, "gates": gates})
    sent: list[tuple[str | None, ...]] = []

    async def verb(run: str, answer: Answer) -> None:
        sent.append((answer.gate, answer.choice, answer.text))

    async def known(*_asked: object) -> RunStatus:
        return status

    services = SimpleNamespace(blobs=None, gateway=SimpleNamespace(verb=verb))
    desk: Any = SimpleNamespace(status=known, may_answer=known, token=None, services=services)
    context: Any = SimpleNamespace(
        client_capabilities=SimpleNamespace(elicitation=True),
        protocol_version=INPUT_REQUIRED,
        input_responses={
            "r:g2:": ElicitResult(action="accept", content={"choice": "", "text": "blue"})
        },
    )
    found = await wait(context, desk, desk, "r", seconds=60)
    assert sent == [("g2", None, "blue")], "words of its own, not one of the choices"
    assert isinstance(found, InputRequiredResult)
    assert list(found.input_requests or {}) == ["r:g1:"]


async def asking_below(door: Door) -> str:
    """A run whose worker asks a person."""
    tea = call("human.ask", question="Tea or coffee?", choices=["tea", "coffee"])
    replies = script(
        delegates("w1"),
        {**calls(tea), "when": {"role": "worker", "worker": "w1"}},
        works("w1", "tea"),
        completes("tea"),
    )
    return await door.site.start(delegation(tools={"access": "readonly"}), replies)


async def test_a_question_of_a_run_below_is_put_to_the_person_who_waits_above(door: Door) -> None:
    run = await asking_below(door)
    asked: list[str] = []

    async def person(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"choice": "tea"})

    async with Client(build_server(door.mcp), elicitation_callback=person) as client:
        status = await told(client, "run_wait", id=run, seconds=120)
    assert status["outcome"] == "accepted"
    (message,) = asked
    assert "Tea or coffee?" in message
    assert message.startswith(f"{run}.w1")
