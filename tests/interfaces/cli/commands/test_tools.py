"""Made tools from a shell: look, approve, reject."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from drafts import COUNT, TEXT_SCHEMA, draft

from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.generated_tools.draft import PIPELINE
from perdure.domain.generated_tools.record import GeneratedTool, ToolAuthor
from perdure.domain.run.status import StoredRun
from tests.interfaces.cli.memory import Installation

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OPENED = draft().hash
OTHER = draft(name="text.other").hash


async def put(home: Path) -> None:
    stores = await open_stores(home)
    for run, outcome in (("delegation-good", "accepted"), ("delegation-bad", "best_effort")):
        row = StoredRun(
            id=run,
            kind="delegation",
            goal="g",
            label=None,
            lifecycle="completed",
            outcome=outcome,
            started_at=NOW,
        )
        await stores.records.put_run(row)
    await keep(stores, "text.count", "delegation-good")
    await keep(stores, "text.other", "delegation-bad")
    await stores.close()


async def keep(stores: Stores, name: str, root: str) -> None:
    made = draft(name=name)
    tool = GeneratedTool(
        hash=made.hash,
        name=name,
        description="Count the words of a text.",
        parameters=TEXT_SCHEMA,
        code=await stores.blobs.put(made.code.encode()),
        handler="handler",
        pipeline=PIPELINE,
        made_at=NOW,
    )
    await stores.made_tools.keep(tool, ToolAuthor(run=f"{root}/w", root=root, worker="w1", at=NOW))


@pytest.fixture
def perdure(tmp_path: Path) -> Installation:
    """A command line over a store that holds a tool of an accepted run and one of another."""
    asyncio.run(put(tmp_path / "home"))
    installation = Installation(folder=tmp_path, remembers=True)
    stores = asyncio.run(open_stores(tmp_path / "home"))
    installation.blobs = stores.blobs  # pyright: ignore[reportAttributeAccessIssue]
    asyncio.run(stores.close())
    return installation


def told(perdure: Installation, *argv: str) -> dict[str, object]:
    """Run one command with --json and read what it said."""
    assert perdure.run(*argv, "--json") == 0, perdure.err
    said: dict[str, object] = json.loads(perdure.out)
    return said


def test_alone_it_lists_what_was_made(perdure: Installation) -> None:
    assert perdure.run("tools") == 0
    assert OPENED[:12] in perdure.out
    assert "text.other" in perdure.out
    assert "open one to later runs: perdure tools show" in perdure.out


def test_tools_of_a_state(perdure: Installation) -> None:
    assert told(perdure, "tools", "list", "--state", "approved") == {"type": "tools", "tools": []}


def test_one_tool_is_shown_whole(perdure: Installation) -> None:
    assert perdure.run("tools", "show", OPENED[:10]) == 0
    for part in (OPENED, "w1 of delegation-good/w", "return {", "tools: {generated:"):
        assert part in perdure.out
    assert told(perdure, "tools", "show", "text.count")["code"] == COUNT


def test_a_tool_of_an_accepted_run_is_approved(perdure: Installation) -> None:
    assert perdure.run("tools", "approve", "text.count") == 0
    assert perdure.out == "✓ later runs may use text.count\n"
    assert f"tools: {{generated: {{text.count: {OPENED}}}}}" in perdure.err
    shown = told(perdure, "tools", "show", "text.count")["tool"]
    assert isinstance(shown, dict)
    assert (shown["state"], shown["decided_by"] is not None) == ("approved", True)


def test_a_tool_of_another_run_is_not_approved(perdure: Installation) -> None:
    assert perdure.run("tools", "approve", "text.other") == 5
    assert "No accepted run made text.other (delegation-bad: best_effort)" in perdure.err


def test_a_tool_is_rejected_whoever_made_it(perdure: Installation) -> None:
    assert perdure.run("tools", "reject", OTHER[:8]) == 0
    shown = told(perdure, "tools", "show", OTHER)["tool"]
    assert isinstance(shown, dict)
    assert shown["state"] == "rejected"


@pytest.mark.parametrize("name", ["text.nothing", "", "%"])
def test_an_unknown_tool_is_not_found(perdure: Installation, name: str) -> None:
    assert perdure.run("tools", "show", name) == 4
    assert "perdure tools list" in perdure.err
