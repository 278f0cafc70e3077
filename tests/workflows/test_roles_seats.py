"""What each stage may use: its access, its tools, its models, its share of the budget."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from installation import Installation
from teams import APPROVED, PAIR, asks, says, script, stage, task, team

from perdure.domain.llm.transcript import ToolResultBlock

SERVER = str(Path(__file__).parents[1] / "support" / "probe_server.py")
LOOPS = """
import pathlib, sys
from mcp.server.mcpserver import MCPServer


def loop_start(goal: str) -> str:
    pathlib.Path(sys.argv[1]).touch()
    return "started"


server = MCPServer("loops")
server.add_tool(loop_start)
server.add_tool(lambda: "pong", name="ping")
server.run("stdio")
"""


@pytest.fixture
async def served(bare: Installation) -> AsyncIterator[Installation]:
    """An installation whose operator allows two servers: one that changes, one with loop tools."""
    program, mark = bare.home / "loops_server.py", bare.home / "started"
    program.write_text(LOOPS)
    probe = {"command": [sys.executable, "-P", SERVER, "."], "cwd": "workspace"}
    loops = {"command": [sys.executable, "-P", str(program), str(mark)]}
    (bare.home / "mcp.yaml").write_text(
        yaml.safe_dump({"servers": {"probe": probe, "ours": loops}})
    )
    async with bare.worker():
        yield bare


async def outcomes(site: Installation, transcript: str | None) -> list[tuple[str, str | None]]:
    """How each tool call of a stage ended."""
    assert transcript is not None
    return [
        (block.outcome, block.text)
        for message in await site.parts.stores.transcripts.load(transcript)
        for block in message.blocks
        if isinstance(block, ToolResultBlock)
    ]


async def test_a_stage_that_obeys_cannot_reach_beyond_its_access(site: Installation) -> None:
    write = {"path": "a.txt", "content": "x", "expected_hash": "absent"}
    replies = [
        asks("coder", "fs.write", write),
        says("coder", "written"),
        asks("reviewer", "fs.write", {**write, "path": "b.txt"}),
        asks("reviewer", "fs.read", {"path": "a.txt"}),
        says("reviewer", APPROVED),
    ]
    pair = team(stage("coder", access="full"), stage("reviewer", access="readonly"))
    result = await site.run(task(pair), script(replies))
    assert (result.outcome, result.reason) == ("accepted", "approved")
    coder, reviewer = [await outcomes(site, one.transcript) for one in result.iterations[0].stages]
    assert [outcome for outcome, _ in coder] == ["ok"]
    assert [outcome for outcome, _ in reviewer] == ["error", "ok"]


async def test_loop_tools_of_a_server_are_never_a_stages(served: Installation) -> None:
    replies = [
        asks("coder", "mcp.ours.ping", {}),
        asks("coder", "mcp.ours.loop_start", {"goal": "x"}),
        says("coder", "I could not."),
        says("reviewer", APPROVED),
    ]
    own = stage("coder", access="full", tools=["mcp.*", "fs.*"])
    spec = task(team(own, stage("reviewer")), tools={"mcp": ["ours"]})
    result = await served.run(spec, script(replies))
    assert result.outcome == "accepted", result.explanation
    (ping, start) = await outcomes(served, result.iterations[0].stages[0].transcript)
    assert ping == ("ok", "pong")
    assert start[0] == "error"
    assert not (served.home / "started").exists()


@pytest.mark.long
async def test_a_server_that_changes_a_tool_in_mid_run_is_not_called_with_the_old_one(
    served: Installation,
) -> None:
    write = {"path": "changed", "content": "", "expected_hash": "absent"}
    replies = [
        asks("coder", "mcp.probe.shout", {"text": "hey"}),
        asks("coder", "fs.write", write),
        asks("coder", "mcp.probe.die", {}),
        asks("coder", "mcp.probe.shout", {"text": "hey"}),
        says("coder", "It changed."),
        says("reviewer", APPROVED),
    ]
    pair = team(stage("coder", access="full"), stage("reviewer"))
    result = await served.run(task(pair, tools={"mcp": ["probe"]}), script(replies))
    assert result.outcome == "accepted", result.explanation
    first, _, died, then = await outcomes(served, result.iterations[0].stages[0].transcript)
    assert first == ("ok", "HEY")
    assert died[0] == "effect_uncertain"
    assert then[0] == "error"
    assert "changed on its server since the run opened" in (then[1] or "")


async def test_a_stage_that_used_up_its_share_closes_with_a_text(probe: Installation) -> None:
    replies = [
        *(asks("coder", "probe.echo", {"text": f"t{number}"}) for number in range(2)),
        says("coder", "as far as I came"),
        says("reviewer", APPROVED),
    ]
    pair = team(stage("coder", access="readonly", budget=0.01), stage("reviewer", budget=0.5))
    result = await probe.run(task(pair, budget={"tokens": 20_000}), script(replies))
    assert (result.outcome, result.output) == ("accepted", "as far as I came")
    assert result.tools_used == {"probe.echo": 2}
    coder, reviewer = result.iterations[0].stages
    assert (coder.status, coder.model_calls) == ("completed", 3)
    assert reviewer.status == "completed"


async def test_a_stage_has_models_of_its_own_and_fails_over_by_itself(site: Installation) -> None:
    broken = await site.script(script([{"error": {"status": 401, "message": "no such key"}}] * 2))
    second = await site.script(script([says("reviewer", APPROVED)]))
    pair = team(PAIR[0], {**PAIR[1], "model": [broken, second]})
    result = await site.run(task(pair), script([says("coder", "draft")]))
    assert (result.outcome, result.output) == ("accepted", "draft")
    coder, reviewer = result.iterations[0].stages
    assert coder.model not in {broken, second}
    assert (reviewer.model, reviewer.status) == (second, "completed")
    assert set(result.models_used) == {coder.model, second}


@pytest.mark.parametrize("named", [False, True], ids=["not named", "named"])
async def test_loop_tools_of_a_server_are_for_agents_that_name_them(
    served: Installation, named: bool
) -> None:
    allowed = {"allow": ["mcp.ours.loop_*"]} if named else {}
    tools = {"access": "full", "mcp": ["ours"], **allowed}
    replies = [asks("executor", "mcp.ours.loop_start", {"goal": "x"}), {"text": "Done."}]
    result = await served.run({"kind": "agent", "goal": "start", "tools": tools}, script(replies))
    assert result.output == "Done."
    assert (served.home / "started").exists() is named
