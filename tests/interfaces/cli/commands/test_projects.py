"""Sessions, projects and artifacts from a shell."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.projects.records import Artifact, Project, Reach, Session, Todo
from tests.interfaces.cli.memory import Installation

NOW = datetime.now(UTC)
RUN = "refine-steel-bottle-7f3a"


@pytest.fixture
def perdure(tmp_path: Path) -> Installation:
    """A command line over a store with a session, and a project with a todo and an artifact."""
    asyncio.run(_put(tmp_path / "home"))
    return Installation(folder=tmp_path, remembers=True)


async def _put(home: Path) -> None:
    stores = await open_stores(home)
    belongs = Reach(run=RUN, project="project-1").belonging()
    await stores.sessions.add_session(Session(id="session-1", title="mine", created_at=NOW))
    await stores.projects.add_project(
        Project(id="project-1", slug="cache", goal="Build a cache", created_at=NOW)
    )
    for name, status in (("todo-1", "done"), ("todo-2", "pending")):
        todo = Todo.model_validate(
            {
                "id": name,
                "belongs": belongs,
                "run": RUN,
                "text": f"do {name}",
                "status": status,
                "by": "plan",
                "created_at": NOW,
                "changed_at": NOW,
            }
        )
        await stores.todos.add_todo(todo)
    for name in ("artifact-1", f"{RUN}-1-coder", f"{RUN}-1-coder-2"):
        await stores.artifacts.add_artifact(
            Artifact(
                id=name, belongs=belongs, run=RUN, iteration=1, stage="coder", name="plan.md",
                ref="sha256:" + str(len(name) % 10) * 64, bytes=12, created_at=NOW,
            )
        )  # fmt: skip
    await stores.close()


def _told(perdure: Installation, *argv: str) -> dict[str, object]:
    assert perdure.run(*argv, "--json") == 0
    return json.loads(perdure.out)


def _shown(perdure: Installation, *argv: str) -> str:
    assert perdure.run(*argv) == 0
    return perdure.out


def test_sessions_are_opened_listed_and_closed(perdure: Installation) -> None:
    opened = _told(perdure, "sessions", "open", "An afternoon")
    assert (opened["title"], opened["state"]) == ("An afternoon", "open")
    assert str(opened["id"]) in _shown(perdure, "sessions")
    closed = _told(perdure, "sessions", "close", "session-1")
    assert (closed["id"], closed["state"]) == ("session-1", "closed")
    listed = _told(perdure, "sessions", "list")
    assert isinstance(listed["sessions"], list)
    assert {item["state"] for item in listed["sessions"]} == {"open", "closed"}


def test_an_unknown_session_or_project_is_not_found(perdure: Installation) -> None:
    for argv in (("sessions", "close", "gone"), ("projects", "show", "gone")):
        assert perdure.run(*argv) == 4
        assert "'gone'" in perdure.err


def test_projects_tell_how_much_is_done(perdure: Installation) -> None:
    assert "1/2" in _shown(perdure, "projects")
    shown = _shown(perdure, "projects", "show", "cache")
    for part in ("Build a cache", "do todo-1", "pending", "artifact-1", "plan.md"):
        assert part in shown
    told = _told(perdure, "projects", "show", "project-1")
    assert isinstance(told["todos"], list)
    assert [item["status"] for item in told["todos"]] == ["done", "pending"]


def test_artifacts_of_a_run_are_listed(perdure: Installation) -> None:
    told = _told(perdure, "artifacts", RUN)
    assert isinstance(told["artifacts"], list)
    assert "artifact-1" in [item["id"] for item in told["artifacts"]]
    assert f"perdure artifact {told['run']} " in _shown(perdure, "artifacts", RUN)


def test_what_a_stage_said_is_read_by_the_name_in_the_list(perdure: Installation) -> None:
    for name in (f"{RUN}-1-coder", f"{RUN}-1-coder-2"):
        address = f"sha256:{str(len(name) % 10) * 64}"
        perdure.blobs.texts[address] = name
        assert _told(perdure, "artifact", RUN, name)["ref"] == address
    assert perdure.run("artifact", RUN, f"{RUN}-9") == 4
    assert "perdure artifacts" in perdure.err


def test_without_any_the_next_step_is_told(tmp_path: Path) -> None:
    empty = Installation(folder=tmp_path, remembers=True)
    assert "sessions open" in _shown(empty, "sessions")
    assert "named after its goal" in _shown(empty, "projects")
