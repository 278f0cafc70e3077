"""Tools of a real MCP server: pinned, called, cut, refused, and what happens when it goes away."""

import asyncio
import shutil
import sys
from typing import Any, cast

import mcp.types as wire
import psutil
import pytest
from waiting import eventually

from perdure.adapters.mcp.connections import Link, Target
from perdure.adapters.tools.execution import HARD_CAP_BYTES
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.tools.mcp_servers import ServerSpec


async def test_pinning_lists_every_tool_with_the_operators_words_on_it(probe):
    servers = probe.servers(
        access="network",
        tools={"shout": {"access": "read", "idempotent": True, "timeout_s": 5}},
        approve=True,
    )
    found = await servers.pin([ServerSpec(name="probe")], root=str(probe.root))
    facts = {fact.name: fact for fact in found.facts}
    assert set(found.servers[0].tools) == set(facts)
    shout, weather = facts["mcp.probe.shout"], facts["mcp.probe.weather"]
    assert (shout.access, shout.idempotent, shout.timeout_s) == ("read", True, 5)
    assert (weather.access, weather.idempotent, weather.needs_approval) == ("network", False, True)
    assert shout.description == "Say it loudly."
    assert shout.parameters["required"] == ["text"]


async def test_operator_and_task_both_narrow_what_is_offered(probe):
    servers = probe.servers(allow=["s*", "w*"], deny=["wait"])
    grant = await probe.pinned(servers, {"name": "probe", "deny": ["where"]})
    assert grant.allowed == ("mcp.probe.shout", "mcp.probe.weather")


async def test_a_call_reaches_the_server_and_one_process_serves_all_calls(probe):
    servers = probe.servers()
    grant = await probe.pinned(servers)
    assert (await probe.call(servers, grant, "shout", text="hey")).text == "HEY"
    given = await asyncio.gather(*(probe.call(servers, grant, "pid") for _ in range(5)))
    assert len({one.text for one in given}) == 1


async def test_contents_of_every_kind_become_text(probe):
    servers = probe.servers()
    grant = await probe.pinned(servers)
    album = (await probe.call(servers, grant, "album")).text
    assert album.splitlines()[:5] == [
        "look:",
        "[image, image/png, 3 bytes; not shown]",
        "[resource report at file:///report.md: the report]",
        "[resource memo://1]",
        "remember",
    ]
    assert "[resource memo://2, a/b, 3 bytes; not shown]" in album
    assert '"pages": 3' in album
    weather = (await probe.call(servers, grant, "weather", city="Rome")).text
    assert weather.count("Rome") == 1, "text and structure say the same: once is enough"


async def test_a_server_gets_its_variables_and_folder_and_nothing_else(probe, monkeypatch):
    monkeypatch.setenv("LEAK", "leaked")
    servers = probe.servers(env=["PROBE_TOKEN"], cwd="workspace")
    grant = await probe.pinned(servers)
    given = await probe.call(servers, grant, "where")
    assert given.text == f"{probe.root.resolve()} s3cret -"
    other = probe.servers()
    text = (await probe.call(other, await probe.pinned(other), "where")).text
    assert "perdure-mcp-" in text
    assert text.endswith("no token -")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ({"text": 3}, "invalid_arguments", "3 is not of type 'string'"),
        ({}, "invalid_arguments", "'text' is a required property"),
    ],
)
async def test_arguments_are_checked_before_the_server_sees_them(probe, arguments, code, said):
    servers = probe.servers()
    grant = await probe.pinned(servers)
    given = await probe.call(servers, grant, "shout", **arguments)
    assert (given.outcome, given.code) == ("error", code)
    assert said in given.text


async def test_an_error_of_the_tool_is_a_result(probe):
    servers = probe.servers()
    grant = await probe.pinned(servers)
    given = await probe.call(servers, grant, "fail", why="no luck")
    assert (given.outcome, given.code) == ("error", "tool_failed")
    assert "no luck" in given.text


@pytest.mark.long
async def test_long_output_is_cut_at_the_hard_cap(probe):
    servers = probe.servers()
    grant = await probe.pinned(servers)
    given = await probe.call(servers, grant, "many", count=HARD_CAP_BYTES + 10)
    assert given.truncated
    assert len(given.text) < HARD_CAP_BYTES + 200


async def test_a_late_tool_is_told_to_stop_and_the_server_lives_on(probe):
    servers = probe.servers()
    grant = await probe.pinned(servers)
    given = await probe.call(servers, grant, "wait", seconds=60, timeout_s=0.5)
    assert (given.outcome, given.code) == ("error", "timeout")
    assert "look before you repeat it" in given.text
    await eventually(lambda: (probe.state / "cancelled").exists())
    assert (await probe.call(servers, grant, "shout", text="hey")).text == "HEY"


async def test_a_cancelled_call_is_cancelled_at_the_server(probe):
    servers = probe.servers()
    grant = await probe.pinned(servers)
    task = asyncio.create_task(probe.call(servers, grant, "wait", seconds=60))
    await eventually(lambda: (probe.state / "waiting").exists())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: (probe.state / "cancelled").exists())


@pytest.mark.long
async def test_a_server_that_dies_in_a_call_leaves_the_effect_uncertain_and_is_restarted(probe):
    servers = probe.servers(tools={"pid": {"access": "read"}})
    grant = await probe.pinned(servers)
    before = (await probe.call(servers, grant, "pid")).text
    given = await probe.call(servers, grant, "die")
    assert (given.outcome, given.code) == ("effect_uncertain", "server_unavailable")
    after = await probe.call(servers, grant, "pid")
    assert (after.outcome, after.text != before) == ("ok", True)


async def test_a_read_that_dies_may_be_asked_again(probe):
    servers = probe.servers(access="read")
    grant = await probe.pinned(servers)
    given = await probe.call(servers, grant, "die")
    assert (given.outcome, given.code) == ("error", "server_unavailable")
    assert "safe" in given.text


async def test_a_server_that_died_between_calls_is_started_again(probe):
    servers = probe.servers()
    grant = await probe.pinned(servers)
    first = int((await probe.call(servers, grant, "pid")).text)
    psutil.Process(first).kill()
    given = await probe.call(servers, grant, "pid")
    assert given.outcome == "ok"
    assert int(given.text) != first


@pytest.mark.long
@pytest.mark.parametrize(("state", "said"), [("changed", "changed on"), ("gone", "is gone from")])
async def test_a_tool_that_is_not_what_was_pinned_is_not_called(probe, state, said):
    grant = await probe.pinned(probe.servers())
    (probe.state / state).touch()
    later = probe.servers()
    given = await probe.call(later, grant, "shout", text="hey", times=2)
    assert (given.outcome, given.code) == ("error", "server_changed")
    assert said in given.text


async def test_a_server_that_cannot_be_started_any_more_is_an_error_with_its_words(probe):
    servers = probe.servers()
    grant = await probe.pinned(servers)
    shutil.rmtree(probe.root)
    broken = probe.servers(command=["/no/such/program"])
    given = await probe.call(broken, grant, "shout", text="hey")
    assert (given.outcome, given.code) == ("error", "server_unavailable")
    assert "/no/such/program" in given.text or "No such file" in given.text


async def test_what_a_server_says_before_it_gives_up_is_told_when_pinning_fails(probe):
    complaint = "import sys; sys.stderr.write('no licence'); sys.exit(3)"
    servers = probe.servers(command=["python3", "-c", complaint])
    with pytest.raises(InvalidInput, match="no licence"):
        await probe.pinned(servers)


SILENT = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        given = {"protocolVersion": asked["params"]["protocolVersion"],
                 "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": given}), flush=True)
    elif "id" in asked and asked["method"] != "tools/list":
        error = {"code": -32601, "message": "no such method"}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
"""


async def test_a_server_that_never_lists_its_tools_does_not_hold_up_a_run(
    probe, tmp_path, monkeypatch
):
    program = tmp_path / "silent.py"
    program.write_text(SILENT)
    servers = probe.servers(command=[sys.executable, str(program)])
    monkeypatch.setattr("perdure.adapters.mcp.server_tools.PINNING_S", 3.0)
    with pytest.raises(InvalidInput, match=r"does not work .* it listed no tools within 3 s"):
        await probe.pinned(servers)


async def test_a_missing_variable_is_named_before_anything_starts(probe):
    servers = probe.servers(env=["NO_SUCH_VARIABLE"])
    with pytest.raises(InvalidInput, match="NO_SUCH_VARIABLE, which is not set on this worker"):
        await probe.pinned(servers)


@pytest.mark.parametrize(
    ("entry", "grant", "said"),
    [
        ({}, {"allowed": ("fs.read",)}, "not granted"),
        ({"access": "network"}, {"level": "readonly"}, "beyond the access level"),
        ({"access": "write"}, {"writable": False}, "read-only"),
        ({"deny": ["shout"]}, {}, "no longer allowed"),
    ],
    ids=["not on offer", "level", "read-only", "withdrawn"],
)
async def test_the_grant_and_the_operator_are_asked_before_the_server(probe, entry, grant, said):
    pinned = await probe.pinned(probe.servers(), **grant)
    later = probe.servers(**entry, command=["/no/such/program"])
    given = await probe.call(later, pinned, "shout", text="hey")
    assert (given.outcome, given.code) == ("denied", "denied")
    assert said in given.text


async def test_closing_ends_the_programs(probe):
    servers = probe.servers()
    grant = await probe.pinned(servers)
    process = psutil.Process(int((await probe.call(servers, grant, "pid")).text))
    await servers.aclose()
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.long
async def test_too_many_tools_are_refused_with_the_way_out(probe, monkeypatch):
    monkeypatch.setattr("perdure.adapters.mcp.server_tools.TOOLS_AT_MOST", 3)
    with pytest.raises(InvalidInput, match="Pick some with `allow`"):
        await probe.pinned(probe.servers())
    few = await probe.pinned(probe.servers(), {"name": "probe", "allow": ["shout"]})
    assert few.allowed == ("mcp.probe.shout",)


async def test_a_question_in_the_middle_of_a_call_is_declined_and_told(probe) -> None:
    servers = probe.servers()
    grant = await probe.pinned(servers)
    answer = await probe.call(servers, grant, "paint")
    assert answer.outcome == "ok"
    assert "the person: decline" in answer.text
    assert "'Which colour?'" in answer.text
    assert "human.ask" in answer.text
    again = await probe.call(servers, grant, "weather", city="Rome")
    assert "Which colour" not in again.text


async def test_a_question_is_told_although_another_call_has_ended_meanwhile(monkeypatch) -> None:
    link = Link(Target(name="probe", url="http://127.0.0.1:9/"), on_end=lambda _: None)
    go = {name: asyncio.Event() for name in ("paint", "weather")}
    asked = wire.ElicitRequestFormParams(
        message="Which colour?", requested_schema={"type": "object", "properties": {}}
    )

    class Client:
        async def call_tool(self, tool: str, _: object) -> wire.CallToolResult:
            await go[tool].wait()
            if tool == "paint":
                await link._declined(cast(Any, None), asked)
            return wire.CallToolResult(content=[])

    async def client() -> Client:
        return Client()

    monkeypatch.setattr(link, "_client", client)
    paint, weather = (asyncio.create_task(link.call(name, {})) for name in go)
    await asyncio.sleep(0)
    go["weather"].set()
    assert (await weather)[1] == ()
    go["paint"].set()
    assert [said for said in (await paint)[1] if "Which colour?" in said]
    link.drop()
    await link.wait_until_closed()


async def test_variables_come_by_reference(probe, tmp_path):
    (tmp_path / "token").write_text("by-reference\n")
    servers = probe.servers(env_from={"PROBE_TOKEN": f"file:{tmp_path / 'token'}"})
    grant = await probe.pinned(servers)
    assert "by-reference" in str(await probe.call(servers, grant, "where"))


async def test_a_reference_that_leads_nowhere_is_an_honest_error(probe):
    servers = probe.servers(env_from={"PROBE_TOKEN": "file:/no/such/file"})
    with pytest.raises(InvalidInput, match="'probe' refers to file:/no/such/file"):
        await probe.pinned(servers)


RUDE = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    tool = {"name": "ok", "inputSchema": {"type": SCHEMA}}
    given = {
        "initialize": {"protocolVersion": asked.get("params", {}).get("protocolVersion"),
                       "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": [tool]},
        "tools/call": {"content": [{"type": "smell", "of": "roses"}]},
    }
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": given.get(asked["method"], {})}
    print(json.dumps(answer), flush=True)
"""


async def test_what_is_no_protocol_is_told_in_words(probe, tmp_path):
    server = tmp_path / "rude.py"
    command = [sys.executable, str(server)]
    server.write_text(RUDE.replace("SCHEMA", "'array'"))
    with pytest.raises(InvalidInput) as caught:
        await probe.pinned(probe.servers(command=command))
    said = "does not keep to the protocol. In its list of tools: tools[0].inputSchema.type: found"
    assert said in caught.value.message
    server.write_text(RUDE.replace("SCHEMA", "'object'"))
    servers = probe.servers(command=command)
    grant = await probe.pinned(servers)
    given = await probe.call(servers, grant, "ok")
    assert (given.outcome, given.code) == ("error", "tool_failed")
    assert "In the result of ok: content[0]" in given.text
    assert "pydantic" not in given.text
    assert given.text.endswith("The call itself ran: look before you repeat it.")
    reading = probe.servers(command=command, access="read")
    given = await probe.call(reading, await probe.pinned(reading), "ok")
    assert "ran" not in given.text.partition("In the result of")[2]


BUSY = """
import json, os, pathlib, sys, threading, time
state = pathlib.Path(sys.argv[1])
(state / f"{os.getpid()}.pid").touch()

def say(number, **answer):
    print(json.dumps({"jsonrpc": "2.0", "id": number, **answer}), flush=True)

def work(number):
    (state / "working").touch()
    while not (state / "done").exists():
        time.sleep(0.01)
    say(number, result={"content": [{"type": "text", "text": str(os.getpid())}]})

for line in sys.stdin:
    asked = json.loads(line)
    number, method = asked.get("id"), asked["method"]
    given = {
        "initialize": {"protocolVersion": asked.get("params", {}).get("protocolVersion"),
                       "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]},
    }.get(method, {})
    if method == "tools/call":
        threading.Thread(target=work, args=(number,), daemon=True).start()
    elif method == "tools/list" and (state / "busy").exists():
        (state / "busy").unlink()
        say(number, error={"code": -32603, "message": "too many requests"})
    elif number is not None:
        say(number, result=given)
"""


async def test_a_server_that_is_too_busy_to_list_its_tools_keeps_the_calls_under_way(
    probe, tmp_path
):
    program = tmp_path / "busy.py"
    program.write_text(BUSY)
    servers = probe.servers(command=[sys.executable, str(program), str(probe.state)])
    grant = await probe.pinned(servers)
    first = asyncio.create_task(probe.call(servers, grant, "go"))
    await eventually(lambda: (probe.state / "working").exists())
    (probe.state / "busy").touch()
    second = asyncio.create_task(probe.call(servers, grant, "go"))
    await eventually(lambda: len(list(probe.state.glob("*.pid"))) == 2 or first.done())
    (probe.state / "done").touch()
    before, after = await asyncio.gather(first, second)
    assert (before.outcome, after.outcome) == ("ok", "ok")
    assert before.text != after.text, "later calls have a connection of their own"
    await eventually(lambda: not psutil.pid_exists(int(before.text)))
    assert (await probe.call(servers, grant, "go")).text == after.text
