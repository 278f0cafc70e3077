"""Runs that use tools of real MCP servers: chosen by the task, allowed by the worker's operator."""

import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from agent_runs import books_agree, call, calls, results, results_in, script, task
from installation import Installation
from loop_scripts import APPROVED, PAIR, STAGES
from waiting import eventually

from perdure.adapters.mcp import connections
from perdure.domain.foundation.errors import InvalidInput

GIT = str(Path(sys.executable).parent / "mcp-server-git")
DONE = {"text": "Done."}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    for words in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def payloads(value: object) -> Iterator[str]:
    """Every payload of a history, as it is encoded."""
    match value:
        case {"data": str(data)}:
            yield data
        case dict():
            for inner in value.values():
                yield from payloads(inner)
        case list():
            for inner in value:
                yield from payloads(inner)
        case _:
            return


@asynccontextmanager
async def worker_with(bare: Installation, **servers: object):
    """A worker whose operator allows these servers."""
    (bare.home / "mcp.yaml").write_text(yaml.safe_dump({"servers": servers}))
    async with bare.worker():
        yield bare


@pytest.mark.long
async def test_an_agent_run_uses_a_git_server_in_its_own_working_copy(
    bare: Installation, repository: Path
) -> None:
    entry = {"command": [GIT], "cwd": "workspace", "access": "write"}
    async with worker_with(bare, git=entry) as site:
        result = await site.run(
            task(workspace=str(repository), tools={"access": "full", "mcp": ["git"]}),
            script(
                calls(call("mcp.git.git_log", repo_path=".")),
                calls(call("mcp.git.git_status", repo_path=3)),
                DONE,
            ),
        )
        log, wrong = await results(site, result)
    assert (result.outcome, log.outcome, wrong.outcome) == ("accepted", "ok", "error")
    assert "Message: one" in log.text
    assert "is not of type" in wrong.text
    assert result.tools_used == {"mcp.git.git_log": 1, "mcp.git.git_status": 1}
    await books_agree(site, result)


@pytest.mark.long
async def test_a_stage_of_a_loop_uses_it_within_its_access(
    bare: Installation, repository: Path
) -> None:
    writer = {**STAGES[0], "access": "full"}
    reader = {**STAGES[1], "access": "readonly"}
    (bare.home / "loops").mkdir()
    (bare.home / "loops" / "pair.yaml").write_text(
        yaml.safe_dump({**PAIR, "roles": [writer, reader]})
    )
    look = [call("mcp.git.git_log", repo_path=".")]
    replies = {
        "replies": [
            {"when": {"role": "writer"}, "tool_calls": look},
            {"when": {"role": "writer"}, "text": "I looked."},
            {"when": {"role": "reviewer"}, "tool_calls": look},
            {"when": {"role": "reviewer"}, "text": APPROVED},
        ]
    }
    async with worker_with(bare, git={"command": [GIT], "cwd": "workspace"}) as site:
        result = await site.run(
            {
                "kind": "roles",
                "goal": "look",
                "workspace": str(repository),
                "roles": {"definition": "pair", "parameters": {"topic": "git"}},
                "tools": {"mcp": ["git"]},
            },
            replies,
        )
        writes, reviews = [stage for record in result.iterations for stage in record.stages]
        seen = [await results_in(site, stage.transcript) for stage in (writes, reviews)]
    assert result.outcome == "accepted"
    assert (writes.name, reviews.name) == ("write", "review")
    assert [[one.outcome for one in found] for found in seen] == [["ok"], ["error"]]
    assert "Message: one" in seen[0][0].text


async def test_the_pinned_tools_are_in_history(bare: Installation, repository: Path) -> None:
    async with worker_with(bare, git={"command": [GIT]}) as site:
        spec = task(tools={"access": "full", "mcp": [{"name": "git", "allow": ["git_log"]}]})
        result = await site.run(spec, script(DONE))
        told = [b64decode(text) for text in payloads(await site.history(result.id))]
    assert result.outcome == "accepted"
    assert any(b'"servers"' in text and b"mcp.git.git_log" in text for text in told)
    assert not any(b"mcp.git.git_commit" in text for text in told)


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ({"access": "full", "mcp": ["fetch"]}, "allows no MCP server named 'fetch'; it has git"),
        (
            {"access": "full", "mcp": [{"name": "git", "command": ["sh", "-c", "id"]}]},
            "command differ",
        ),
        ({"access": "readonly", "mcp": ["git"]}, "access level readonly offers nothing"),
        (
            {"access": "full", "mcp": ["git"], "allow": ["mcp.git.git_pull"]},
            "no tool is named 'mcp.git.git_pull'",
        ),
    ],
    ids=["not allowed", "another command", "beyond the level", "no such tool"],
)
async def test_a_run_that_asks_for_what_it_cannot_have_ends_before_a_model_is_called(
    bare: Installation, tools: dict[str, object], said: str
) -> None:
    async with worker_with(bare, git={"command": [GIT]}) as site:
        result = await site.run(task(tools=tools), script(DONE))
    assert (result.outcome, result.reason) == ("failed", "invalid_input")
    assert said in result.explanation
    assert result.spend.model_calls == 0


async def test_a_pattern_for_tools_of_a_server_that_was_not_asked_for_is_refused_at_once(
    site: Installation,
) -> None:
    with pytest.raises(InvalidInput, match=r"no tool is named 'mcp\.git\.git_log'"):
        await site.start(task(tools={"access": "full", "allow": ["mcp.git.git_log"]}), script(DONE))


async def test_who_waits_for_a_server_that_hangs_is_told_which_at_once(
    bare: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "OPENING_S", 3.0)
    async with worker_with(bare, slow={"command": ["sleep", "60"]}) as site:
        run = await site.start(task(tools={"mcp": ["slow"]}), script(DONE))

        async def told() -> bool:
            step = (await site.status(run)).step
            return step is not None and step.what.endswith("wait for the MCP servers slow")

        await eventually(told)
        result = await site.gateway.result(run)
        noticed = [event async for event in site.gateway.events(run)]
    assert "no answer within 3 s" in result.explanation
    assert [event.data for event in noticed if event.type == "servers_asked"] == [
        {"servers": "slow"}
    ]
