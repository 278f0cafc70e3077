"""What runs of roles share: sessions, projects with todos, and the artifacts of a run."""

import uuid
from collections.abc import Sequence
from datetime import datetime

from cyclopts import App
from rich.console import RenderableType

from perdure.domain.foundation.errors import NotFound
from perdure.domain.projects.records import (
    Artifact,
    Project,
    Reach,
    Session,
    Todo,
    TodoCounts,
    stable_id,
)
from perdure.interfaces.cli.commands.parameters import Given, Limit, OneRun
from perdure.interfaces.cli.session import LAST
from perdure.interfaces.cli.views.layout import DIM, GOOD, line, pairs, stack, table
from perdure.interfaces.formatting import ago, one_line

SHOWN = 20
sessions_app = App(
    name="sessions", help="List, open and close sessions of runs of roles.", version_flags=()
)
projects_app = App(
    name="projects",
    help="List the projects that runs of roles work on, or show one.",
    version_flags=(),
)

NO_SESSIONS = "No sessions. A run of roles makes its own; `perdure sessions open TITLE` makes one."
NO_PROJECTS = "No projects. A run of roles makes its own, named after its goal."


@sessions_app.default
@sessions_app.command(name="list")
async def list_sessions(*, limit: Limit = SHOWN, session: Given) -> None:
    """Sessions, the newest first.

    Args:
        limit: How many.
    """
    async with session.connected() as services:
        found = await services.sessions.sessions(limit=limit)
        data = {"type": "sessions", "sessions": [item.model_dump(mode="json") for item in found]}
        session.output.show(sessions_view(found, session.context.now()), data)


@sessions_app.command(name="open")
async def open_session(title: str, /, *, session: Given) -> None:
    """Open a session; start runs in it with `--set roles.session=ID`.

    Args:
        title: What it is about.
    """
    made = Session(
        id=stable_id("session", uuid.uuid4().hex), title=title, created_at=session.context.now()
    )
    async with session.connected() as services:
        kept = await services.sessions.add_session(made)
        session.output.show(line(("✓ ", GOOD), f"{kept.id} is open"), kept)


@sessions_app.command
async def close(name: str, /, *, session: Given) -> None:
    """Close a session to new runs; open runs continue.

    Args:
        name: A session's id.
    """
    async with session.connected() as services:
        closed = await services.sessions.close_session(name, at=session.context.now())
        session.output.show(line(("✓ ", GOOD), f"{closed.id} is closed"), closed)


@projects_app.default
@projects_app.command(name="list")
async def list_projects(*, limit: Limit = SHOWN, session: Given) -> None:
    """Projects, the newest first.

    Args:
        limit: How many.
    """
    async with session.connected() as services:
        found = await services.projects.projects(limit=limit)
        counts = [
            await services.todos.count_todos(reach=Reach(run="", project=item.id)) for item in found
        ]
        pairs = list(zip(found, counts, strict=True))
        data = {
            "type": "projects",
            "projects": [
                {**item.model_dump(mode="json"), "todos": count.model_dump()}
                for item, count in pairs
            ],
        }
        session.output.show(projects_view(pairs, session.context.now()), data)


@projects_app.command
async def show(name: str, /, *, session: Given) -> None:
    """Show a project: its goal, its todos and its newest artifacts.

    Args:
        name: A project's id, or the short name that `projects` shows.
    """
    async with session.connected() as services:
        project = await services.projects.project(name)
        if project is None:
            raise NotFound(f"There is no project {name!r}.", cure="`perdure projects` lists all.")
        reach = Reach(run="", project=project.id)
        todos = await services.todos.todos(reach=reach)
        artifacts = await services.artifacts.artifacts(reach=reach, limit=SHOWN)
        data = {
            "type": "project",
            **project.model_dump(mode="json"),
            "todos": [item.model_dump(mode="json") for item in todos],
            "artifacts": [item.model_dump(mode="json") for item in artifacts],
        }
        session.output.show(project_view(project, todos, artifacts), data)


async def artifacts(run: OneRun = LAST, /, *, session: Given) -> None:
    """List what a run stored and what its stages said; `artifact` reads one.

    Args:
        run: A run id, a unique beginning of one, or @last.
    """
    async with session.connected() as services:
        resolved = await services.gateway.resolve(run)
        found = await services.artifacts.artifacts_of_run(resolved)
        data = {
            "type": "artifacts",
            "run": resolved,
            "artifacts": [item.model_dump(mode="json") for item in found],
        }
        session.output.show(artifacts_view(resolved, found), data)


def sessions_view(sessions: Sequence[Session], now: datetime) -> RenderableType:
    if not sessions:
        return line(NO_SESSIONS)
    rows = [
        (item.id, item.state, ago(item.created_at, now), one_line(item.title)) for item in sessions
    ]
    return table(("id", "state", "made", "title"), rows, whole=("id",))


def projects_view(found: Sequence[tuple[Project, TodoCounts]], now: datetime) -> RenderableType:
    """One row for each project, with how many of its todos are done."""
    if not found:
        return line(NO_PROJECTS)
    rows = [
        (item.slug, f"{count.done}/{count.total}", ago(item.created_at, now), one_line(item.goal))
        for item, count in found
    ]
    return table(("name", "todos done", "made", "goal"), rows, whole=("name",))


def project_view(
    project: Project, todos: Sequence[Todo], artifacts: Sequence[Artifact]
) -> RenderableType:
    """The goal, the todos, and the newest artifacts."""
    facts = pairs((("project", project.slug), ("id", project.id), ("goal", one_line(project.goal))))
    parts: list[RenderableType] = [
        facts,
        line(("nothing to do", DIM)) if not todos else _todos(todos),
    ]
    if artifacts:
        parts.append(_artifacts(artifacts))
    return stack(*parts)


def artifacts_view(run: str, artifacts: Sequence[Artifact]) -> RenderableType:
    """One row for each artifact of a run, and how to read one."""
    if not artifacts:
        return line(f"{run} kept no artifacts.")
    way = f"read one: perdure artifact {run} {artifacts[-1].id}"
    return stack(_artifacts(artifacts), line((way, DIM)))


def _todos(todos: Sequence[Todo]) -> RenderableType:
    rows = [(item.status.replace("_", " "), one_line(item.text), item.by) for item in todos]
    return table(("status", "todo", "by"), rows, whole=("status",))


def _artifacts(artifacts: Sequence[Artifact]) -> RenderableType:
    rows = [
        (
            item.id,
            item.kind,
            item.stage,
            str(item.iteration),
            f"{item.bytes:,}",
            one_line(item.name),
        )
        for item in artifacts
    ]
    columns = ("artifact", "kind", "stage", "iteration", "bytes", "name")
    return table(columns, rows, right=("iteration", "bytes"), whole=("artifact",))
