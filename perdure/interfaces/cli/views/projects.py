"""Sessions, projects and artifacts as tables."""

from collections.abc import Sequence
from datetime import datetime

from rich.console import RenderableType

from perdure.domain.projects.records import Artifact, Project, Session, Todo, TodoCounts
from perdure.interfaces.cli.views.layout import DIM, line, pairs, stack, table
from perdure.interfaces.formatting import ago, one_line

NO_SESSIONS = "No sessions. A run of roles makes its own; `perdure sessions open TITLE` makes one."
NO_PROJECTS = "No projects. A run of roles makes its own, named after its goal."


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
