"""The MCP door, asked by the official client: tools, refusals, streams, HTTP with tokens."""

import asyncio
import os
import sys

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_over_http import remote, serving, token, told
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed
from perdure.interfaces.mcp.http_server import serve_http
from perdure.interfaces.mcp.server import build_server

TOOLS = {
    "loop_start",
    "loop_list",
    "loop_status",
    "loop_control",
    "loop_definitions",
    "loop_gates",
    "run_tasks",
    "run_start",
    "run_list",
    "run_wait",
    "run_result",
    "run_text",
}


async def follow(client, run):
    """The status of a run once it has ended."""
    seen = {}

    async def ended():
        seen.update(await told(client, "loop_status", id=run))
        return seen["phase"] == "ended"

    await eventually(ended)
    return seen


async def test_there_are_these_tools_and_none_that_answers(door):
    async with Client(build_server(door.mcp)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == TOOLS
    start = tools["loop_start"].input_schema
    assert sorted(start["required"]) == ["definition", "goal"]
    assert set(start["properties"]) == {"definition", "goal", "parameters", "max_iterations"}
    gates = tools["loop_gates"].annotations
    assert gates is not None and gates.read_only_hint


@pytest.mark.parametrize(
    "parameters", [{"topic": "rust"}, '{"topic": "rust"}'], ids=["object", "text"]
)
async def test_a_loop_is_started_followed_and_listed(door, parameters):
    async with Client(build_server(door.mcp)) as client:
        started = await told(
            client, "loop_start", definition="pair", goal="say", parameters=parameters
        )
        status = await follow(client, started["id"])
        listed = await told(client, "loop_list")
    assert (status["outcome"], status["kind"]) == ("accepted", "roles")
    assert started["id"] in [run["id"] for run in listed["loops"]]
    assert [one["stage"] for one in status["stages"]] == ["write", "review"]
    assert status["stages"][1]["verdict"] == "approved"


async def test_definitions_say_what_a_loop_asks_for(door):
    async with Client(build_server(door.mcp)) as client:
        found = await told(client, "loop_definitions")
    facts = {one["name"]: one for one in found["definitions"]}
    assert {"harness", "pair"} <= set(facts)
    assert facts["pair"]["stages"] == ["write", "review"]
    assert [one["name"] for one in facts["pair"]["parameters"]] == ["topic"]


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("loop_start", {"definition": "piar", "goal": "x"}, "Did you mean pair?"),
        ("loop_start", {"definition": "pair", "goal": "x"}, "no value for topic"),
        ("loop_start", {"definition": "pair"}, "goal: found nothing; allowed: a value"),
        ("loop_start", {"definition": "pair", "goal": ""}, 'goal: found ""; allowed:'),
        ("loop_start", {"definition": 7, "goal": "x"}, "definition: found 7; allowed:"),
        ("loop_start", {"definition": "pair", "gaol": "x"}, "Did you mean goal?"),
        ("loop_start", {"definition": "pair", "goal": "x", "max_iterations": 0}, "found 0"),
        ("loop_gates", {"id": "x"}, "It takes no arguments."),
        ("loop_strat", {}, "Did you mean loop_start?"),
        ("loop_start", {"definition": "pair", "goal": "x", "parameters": "[1]"}, "Give an object"),
        ("loop_start", {"definition": "pair", "goal": "x", "parameters": "{"}, "no JSON"),
        (
            "loop_start",
            {"definition": "pair", "goal": "x", "parameters": {"topc": 1, "topic": 1}},
            "topc",
        ),
        ("loop_list", {"status": "runing"}, "Did you mean running?"),
        ("loop_status", {"id": "nobody"}, "nobody"),
        ("loop_control", {"action": "answer", "id": "all"}, "people alone answer gates"),
        ("loop_control", {"action": "retry", "id": "all"}, "one run, not all"),
    ],
)
async def test_what_is_refused_says_what_to_do(door, tool, arguments, said):
    async with Client(build_server(door.mcp)) as client:
        answer = await told(client, tool, **arguments)
    assert said in answer
    assert "pydantic" not in answer
    assert "validation error" not in answer


@pytest.mark.long
async def test_all_open_loops_are_paused_and_stopped_and_no_run_of_another_kind(door):
    site = door.site
    script = {"replies": [{"text": "slow", "delay_s": 60}]}
    agent = await site.start({"kind": "agent", "goal": "do it"}, script)
    slow = await site.script({"replies": [{"text": "slow", "delay_s": 60, "times": 9}]})
    roles = {"definition": "pair", "parameters": {"topic": "rust"}}
    spec = {"kind": "roles", "goal": "say", "roles": roles, "models": {"executor": slow}}
    run = await site.start(spec)

    async def listed():
        return any(row.id == run for row in (await site.gateway.list()).runs)

    async with Client(build_server(door.mcp)) as client:
        await eventually(listed)
        paused = await told(client, "loop_control", action="pause", id="all")
        assert run in paused["taken"]
        assert agent not in paused["taken"]
        again = await told(client, "loop_control", action="pause", id=run)
        assert "paused" in again
        await told(client, "loop_control", action="resume", id=run)
        await site.handle(agent).terminate()
        await site.handle(run).terminate()


async def test_over_http_a_token_starts_and_follows_a_loop(guarded):
    text = await token(guarded, "operate")
    async with serving(guarded) as url, remote(url, text) as client:
        started = await told(
            client, "loop_start", definition="pair", goal="say", parameters={"topic": "rust"}
        )
        status = await follow(client, started["id"])
    assert status["outcome"] == "accepted"


async def test_over_http_nothing_is_answered_without_a_token_or_beyond_its_scope(guarded):
    reading = await token(guarded, "read")
    async with serving(guarded) as url:
        async with httpx2.AsyncClient(trust_env=False) as plain:
            for headers in ({}, {"authorization": "Bearer perdure_00000000_" + "A" * 43}):
                answer = await plain.post(url, json={}, headers=headers)
                assert answer.status_code == 401
            elsewhere = {"authorization": f"Bearer {reading}", "host": "evil.example"}
            assert (await plain.post(url, json={}, headers=elsewhere)).status_code in {403, 421}
        async with remote(url, reading) as client:
            assert "definitions" in await told(client, "loop_definitions")
            refused = await told(client, "loop_control", action="stop", id="all")
    assert "lacks the scope operate" in refused


async def test_over_http_there_must_be_a_token_at_all(guarded):
    with pytest.raises(NotAllowed, match="perdure api token create"):
        await serve_http(guarded.mcp, port=0, on_ready=lambda _: None, stop=asyncio.Event())


@pytest.mark.long
async def test_over_standard_streams_as_agents_start_it(acted):
    environment = {
        **os.environ,
        **acted.settings.as_environment(),
        "TEMPORAL_ADDRESS": acted.address,
    }
    command = StdioServerParameters(
        command=sys.executable, args=["-P", "-m", "perdure", "mcp"], env=environment
    )
    async with Client(stdio_client(command)) as client:
        started = await told(
            client, "loop_start", definition="pair", goal="say", parameters={"topic": "rust"}
        )
        assert isinstance(started, dict), started
        status = await follow(client, started["id"])
    assert status["outcome"] == "accepted"
