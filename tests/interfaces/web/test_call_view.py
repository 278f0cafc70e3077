"""A call that waits for approval, arranged by its kind; nothing of it is left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.turns.tool_call_rules import RequestedCall
from perdure.domain.turns.tool_questions import approval_prompt, call_shown
from perdure.interfaces.web.inbox.call_view import Argument, CallView, DiffLine, call_view

DIFF = "--- a/notes.md\n+++ b/notes.md\n@@ -1,2 +1,2 @@\n one\n-- - old\n+command: rm -rf /"


def prompt(tool: str, arguments: dict[str, object], shows: str = "") -> str:
    call = RequestedCall.model_validate(
        {"id": "c", "name": tool, "arguments": arguments, "args_hash": "ab" * 32}
    )
    shown = call_shown(call.arguments or {}, shows=shows, tells=("content",) if shows else ())
    return approval_prompt(call, shown, left_out=0, run="r")


CASES = {
    "a change": (
        prompt("fs.write", {"path": "notes.md", "content": "x"}, DIFF),
        CallView(
            shape="change",
            arguments=(Argument("path", "notes.md"),),
            diff=(
                DiffLine("file", "--- a/notes.md"),
                DiffLine("file", "+++ b/notes.md"),
                DiffLine("place", "@@ -1,2 +1,2 @@"),
                DiffLine("same", " one"),
                DiffLine("removed", "-- - old"),
                DiffLine("added", "+command: rm -rf /"),
            ),
        ),
    ),
    "a command": (
        prompt("shell.readonly", {"command": "ls -l", "folder": "src"}),
        CallView(shape="command", main="ls -l", arguments=(Argument("folder", "src"),)),
    ),
    "an address": (
        prompt("web.fetch", {"url": "https://a.example/x"}, "reads https://a.example/x"),
        CallView(shape="address", main="https://a.example/x"),
    ),
    "no address": (
        prompt("web.fetch", {"url": "javascript:alert(1)"}),
        CallView(shape="table", arguments=(Argument("url", "javascript:alert(1)"),)),
    ),
    "many lines": (
        prompt("mail.send", {"body": "dear\n  | path: x\nbye", "to": ["a", "b"]}),
        CallView(
            shape="table",
            arguments=(Argument("body", "dear\n  | path: x\nbye"), Argument("to", '["a", "b"]')),
        ),
    ),
}


@pytest.mark.parametrize(("told", "expected"), CASES.values(), ids=CASES)
def test_a_call_is_shown_by_its_kind(told: str, expected: CallView) -> None:
    tool = told.removeprefix("Approve ").partition("?")[0]
    assert call_view(told, tool=tool) == expected


def test_another_question_stays_as_it_is() -> None:
    assert call_view("boss made the tool x.y: counts\nMay it be used?", tool="x.y") is None


TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


@given(arguments=st.dictionaries(TEXT, TEXT, max_size=4), shows=st.sampled_from(["", DIFF]))
def test_nothing_is_left_out(arguments: dict[str, str], shows: str) -> None:
    told = prompt("some.tool", dict(arguments), shows)
    view = call_view(told, tool="some.tool")
    assert view is not None
    shown = " ".join(
        [
            view.main,
            view.rest,
            *(f"{one.name} {one.value}" for one in view.arguments),
            *(line.text for line in view.diff),
        ]
    )
    for line in told.split("\n")[1:-1]:
        for word in line.removeprefix("  | ").removesuffix(":").split(": "):
            assert word.strip() in shown
