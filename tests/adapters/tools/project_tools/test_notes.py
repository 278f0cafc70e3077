"""Artifacts, todos and sprints as tools: repeats write once, strangers reach nothing."""

import re

import pytest

from perdure.adapters.stores.open_stores import Stores
from perdure.adapters.tools.project_tools.artifacts import CONTENT_CHARACTERS
from tests.adapters.tools.project_tools.conftest import Caller

STRANGERS = [
    "another session and project", "a run that stands alone", "ids in the wrong place",
]  # fmt: skip


def id_in(text: str) -> str:
    found = re.search(r"(artifact|todo)-[0-9a-f]+", text)
    assert found is not None, text
    return found.group()


async def test_what_a_stage_keeps_a_later_stage_reads(caller: Caller) -> None:
    kept = await caller.ok("artifact.write", name="The\nplan", content="1. Träum", kind="plan")
    listed = await caller.ok("artifact.list")
    read = await caller.ok("artifact.read", ref=id_in(kept))
    assert kept == f"Kept as {id_in(kept)} for the project: The plan, 9 bytes."
    assert f"{id_in(kept)} plan: The plan (9 bytes, iteration 1 of coder, project)" in listed
    assert read.startswith("1. Träum\n")


async def test_a_repeated_call_keeps_once_and_another_call_again(caller: Caller) -> None:
    first = await caller.ok("artifact.write", name="a", content="x")
    again = await caller.ok("artifact.write", name="a", content="x")
    other = await caller.ok("artifact.write", key="k2", name="a", content="x")
    assert first == again
    assert id_in(other) != id_in(first)
    assert len((await caller.ok("artifact.list")).splitlines()) == 3  # two, and how to read one


async def test_a_repeated_call_adds_its_todos_once(caller: Caller) -> None:
    added = await caller.ok("todo.add", items=["write  it", "test it"])
    assert await caller.ok("todo.add", items=["write  it", "test it"]) == added
    lines = (await caller.ok("todo.list")).splitlines()
    assert [re.sub(r"todo-\w+", "ID", line) for line in lines] == [
        "[ ] ID write it (coder)",
        "[ ] ID test it (coder)",
    ]


async def test_a_todo_changes_its_status_text_and_place(caller: Caller) -> None:
    added = await caller.ok("todo.add", items=["one", "two"])
    last = re.findall(r"todo-\w+", added)[1]
    changed = await caller.ok("todo.update", id=last, status="in_progress", text="new", order=0)
    assert changed == f"[~] {last} new (coder)"
    assert (await caller.ok("todo.list")).splitlines()[0] == changed
    assert await caller.ok("todo.list", status="done") == "There is nothing to do on the list."


async def test_the_sprint_tells_goal_counts_and_the_last_note(
    caller: Caller, stores: Stores
) -> None:
    added = await caller.ok("todo.add", items=["one", "two"])
    await caller.ok("todo.update", id=id_in(added), status="done")
    await caller.ok("sprint.update", note="half way")
    assert (await caller.ok("sprint.read")).splitlines() == [
        "Sprint 1",
        "Goal: not written down",
        "Todos: 1 pending, 0 in progress, 1 done, 0 cancelled",
        "Progress: half way",
    ]
    kept = await stores.projects.sprint("roles-a", 1)
    assert kept is not None
    assert kept.note == "half way"


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_strangers_neither_read_nor_change(
    caller: Caller, strangers: dict[str, Caller], stranger: str
) -> None:
    ids = [
        id_in(await caller.ok("artifact.write", key=scope, name="n", content="secret", scope=scope))
        for scope in ("run", "session", "project")
    ]
    todo = id_in(await caller.ok("todo.add", items=["mine"]))
    other = strangers[stranger]
    assert await other.ok("artifact.list") == "There are no artifacts yet."
    assert await other.ok("todo.list") == "There is nothing to do on the list."
    assert "0 pending" in await other.ok("sprint.read")
    for ref in ids:
        read = await other.call("artifact.read", ref=ref)
        assert (read.outcome, read.code) == ("error", "not_found")
        assert "secret" not in read.text
    changed = await other.call("todo.update", id=todo, status="cancelled")
    assert (changed.outcome, changed.code) == ("error", "not_found")
    assert "[ ]" in await caller.ok("todo.list")


async def test_another_run_of_the_project_goes_on_with_its_list(caller: Caller) -> None:
    await caller.ok("todo.add", items=["left over"])
    later = Caller(host=caller.host, run="roles-later", session="session-later")
    assert "left over" in await later.ok("todo.list")


async def test_a_scope_that_the_run_lacks_is_refused(strangers: dict[str, Caller]) -> None:
    alone = strangers["a run that stands alone"]
    refused = await alone.call("todo.add", items=["x"], scope="project")
    assert (refused.outcome, refused.code) == ("error", "refused")
    assert "belongs to no project. Use one of: run." in refused.text
    assert "[ ]" in await alone.ok("todo.add", items=["x"])


REFUSED: dict[str, tuple[str, dict[str, object], str]] = {
    "kind of the loop": (
        "artifact.write",
        {"name": "n", "content": "x", "kind": "loop_output"},
        "for the loop itself",
    ),
    "kind of notes": (
        "artifact.write",
        {"name": "n", "content": "x", "kind": "learning"},
        "for the loop itself",
    ),
    "no media type": (
        "artifact.write",
        {"name": "n", "content": "x", "media_type": "html"},
        "text/markdown",
    ),
    "no name": ("artifact.write", {"name": "", "content": "x"}, "name"),
    "too long": (
        "artifact.write",
        {"name": "n", "content": "x" * (CONTENT_CHARACTERS + 1)},
        "content",
    ),
    "no such scope": ("artifact.write", {"name": "n", "content": "x", "scope": "all"}, "scope"),
    "no items": ("todo.add", {"items": []}, "items"),
    "blank item": ("todo.add", {"items": ["  "]}, "needs words"),
    "too many items": ("todo.add", {"items": ["x"] * 21}, "items"),
    "nothing given": ("todo.update", {"id": "todo-1"}, "Nothing to change"),
    "unknown status": ("todo.update", {"id": "todo-1", "status": "open"}, "status"),
    "no note": ("sprint.update", {"note": ""}, "note"),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
async def test_bad_arguments_are_named(caller: Caller, case: str) -> None:
    name, arguments, said = REFUSED[case]
    refused = await caller.call(name, key="k", **arguments)
    assert (refused.outcome, refused.code) == ("error", "invalid_arguments")
    assert said in refused.text


async def test_a_full_list_says_so(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.adapters.tools.project_tools.todos.TODOS_OF_A_SCOPE", 1)
    refused = await caller.call("todo.add", items=["a", "b"])
    assert (refused.outcome, refused.code) == ("error", "not_allowed")
    assert "holds 1 todos; 1 are allowed" in refused.text
