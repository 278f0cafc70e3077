"""The tool calls of an iteration on the page: arguments, results, and the whole of a long one."""

import html
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from agent_runs import call, calls
from page_visit import visitor
from rest import Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

from perdure.domain.llm.transcript import Message, TextBlock, ToolResultBlock, ToolUseBlock
from perdure.domain.turns.records import ToolCallRecord
from perdure.interfaces.rest.schemas import Transcript
from perdure.interfaces.web.rendering import rendered
from perdure.interfaces.web.run.tool_calls import (
    MOST_CHARACTERS,
    MOST_PAGES,
    around,
    cut,
    shown_calls,
)

HOSTILE = "<script>alert(1)</script> \u202e"
LONG = "line of a long file\n" * 20_000
WRITE = call("fs.write", path="a.txt", content=HOSTILE, expected_hash="absent")
SCRIPT = {
    "replies": [calls(WRITE), calls(call("fs.read", path="long.txt")), {"text": "done"}],
    "exhausted": "repeat_last",
}
TASK = {
    "kind": "agent",
    "goal": "write and read",
    "learn": False,
    "recall": False,
    "tools": {"access": "full"},
}


@pytest.fixture
async def calling(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    address = server.client.service_client.config.target_host
    async with (
        scripted(tmp_path / "home", address, SCRIPT) as site,
        site.worker(),
        served(site) as rest,
    ):
        yield rest


async def test_arguments_and_results_are_read_and_the_whole_is_saved(
    calling: Rest, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "long.txt").write_text(LONG)
    run = await calling.start({**TASK, "workspace": str(folder)})
    await calling.ended(run)
    async with visitor(calling, await calling.token("read")) as person:
        iteration = await person.see(f"/runs/{run}/iterations/1")
        assert f"/runs/{run}/iterations/1/tools" in iteration
        first = await person.see(f"/runs/{run}/iterations/1/tools")
        second = await person.see(f"/runs/{run}/iterations/2/tools")
        part = await person.see(f"/runs/{run}/iterations/1/tools", **{"hx-request": "true"})
        assert "No tool was called" in await person.see(f"/runs/{run}/iterations/3/tools")
        link = re.search(r'href="(/runs/[^"]+/results/[^"]+)"', second)
        assert link is not None
        saved = await person.client.get(html.unescape(link[1]))
        stranger = await person.client.get(f"/runs/{run}/results/sha256:{'0' * 64}")
    assert "<html" not in part
    for page in (first, part):
        assert "<script>alert" not in page
        assert "\u202e" not in page
        assert "fs.write" in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt; &lt;U+202E&gt;" in page
    assert "Cut: the whole has" in second
    assert "Cut:" not in first
    assert "Save the whole" in first
    assert "line of a long file" in saved.text
    assert len(saved.content) > MOST_CHARACTERS
    assert saved.headers["content-disposition"] == "attachment"
    assert stranger.status_code == 404


def test_a_long_text_is_cut_and_says_its_size() -> None:
    assert cut("x" * MOST_CHARACTERS) == ("x" * MOST_CHARACTERS, "")
    assert cut("é" * 8_000) == ("é" * MOST_CHARACTERS, "16 KB")


def test_a_call_whose_words_are_gone_is_shown_without_them() -> None:
    records = [ToolCallRecord(id=name, name="fs.read", outcome="ok") for name in ("a", "b", "c")]
    said = [
        Message(
            role="assistant",
            blocks=(
                TextBlock(type="text", text="I look."),
                ToolUseBlock(type="tool_use", id="a", name="fs.read", arguments={"path": "x"}),
                ToolUseBlock(
                    type="tool_use", id="b", name="fs.read", arguments={}, unreadable="no JSON"
                ),
            ),
        ),
        Message(
            role="user",
            blocks=(
                ToolResultBlock(
                    type="tool_result", call_id="a", name="fs.read", outcome="ok", text="text"
                ),
            ),
        ),
    ]
    first, second, third = shown_calls(records, said)
    assert first.arguments is not None
    assert first.arguments.text == '{\n  "path": "x"\n}'
    assert first.result == ("text", "")
    assert second.arguments == ("no JSON", "")
    assert (second.result, third.arguments, third.result) == (None, None, None)


@pytest.mark.parametrize(("pages", "all_read"), [(1, True), (MOST_PAGES, True), (99, False)])
async def test_a_conversation_is_read_up_to_its_bound(pages: int, all_read: bool) -> None:
    message = Message(role="user", blocks=(TextBlock(type="text", text="Go on."),))

    class Pages:
        async def get(self, path: str, shape: type, query: dict[str, Any]) -> Transcript:
            at = int(query["cursor"] or 1)
            cursor = str(at + 1) if at < pages else None
            return Transcript(id="r", head="h", items=(message,), cursor=cursor)

    api: Any = Pages()
    found, whole = await around(api, "r", 7)
    assert whole is all_read
    assert len(found) == (2 * pages if all_read else MOST_PAGES)


@pytest.mark.parametrize(
    ("all_read", "told"), [(True, "Not kept."), (False, "too long to look for it here")]
)
def test_what_was_not_found_says_why(all_read: bool, told: str) -> None:
    record = ToolCallRecord(id="a", name="fs.read", outcome="ok")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    page = rendered(
        "run/tools_part.html", now, run="r", index=1, level=2, all_read=all_read,
        calls=shown_calls([record], []),
    )  # fmt: skip
    assert page.count(told) == 2
