"""What runs of roles share: sessions, projects with todos, and the artifacts of a run."""

import uuid

from cyclopts import App

from perdure.domain.foundation.errors import NotFound
from perdure.domain.projects.records import Reach, Session, stable_id
from perdure.interfaces.cli.commands.parameters import Given, Limit, OneRun
from perdure.interfaces.cli.session import LAST
from perdure.interfaces.cli.views.layout import GOOD, line
from perdure.interfaces.cli.views.projects import (
    artifacts_view,
    project_view,
    projects_view,
    sessions_view,
)

SHOWN = 20
sessions_app = App(
    name="sessions", help="List, open and close sessions of runs of roles.", version_flags=()
)
projects_app = App(
    name="projects",
    help="List the projects that runs of roles work on, or show one.",
    version_flags=(),
)


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
