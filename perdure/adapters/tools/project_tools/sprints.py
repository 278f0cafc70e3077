"""`sprint.read` and `sprint.update`: an iteration as its project's sprint."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated

from pydantic import Field

from perdure.adapters.tools.host import AnyTool
from perdure.adapters.tools.project_tools.scope import reach_of, shared
from perdure.domain.projects.ports import ProjectStore, TodoStore
from perdure.domain.projects.records import Project, Sprint, TodoCounts
from perdure.tool_decorator import ToolContext, tool

NOTE_CHARACTERS = 2_000


def sprint_tools(
    projects: ProjectStore, todos: TodoStore, *, now: Callable[[], datetime]
) -> tuple[AnyTool, ...]:
    """Looking and noting."""

    async def sprint_of(context: ToolContext) -> tuple[Sprint, Project | None]:
        project = await projects.project(context.grant.project)
        kept = await projects.sprint(context.run, context.iteration)
        new = Sprint(
            run=context.run,
            iteration=context.iteration,
            project=context.grant.project,
            goal=project.goal if project else "",
            changed_at=now(),
        )
        return kept or new, project

    @tool(name="sprint.read", idempotent=True)
    async def read(context: ToolContext) -> str:
        """Show the current sprint: its goal, how many todos there are, and the progress note."""
        sprint, project = await sprint_of(context)
        counts = await todos.count_todos(reach=reach_of(context))
        return _told(sprint, project, counts)

    @tool(name="sprint.update", idempotent=True)
    async def update(
        context: ToolContext,
        note: Annotated[str, Field(min_length=1, max_length=NOTE_CHARACTERS)],
    ) -> str:
        """Replace the progress note of the current sprint; the next stages read it.

        Args:
            note: where the work stands, in a few sentences.
        """
        sprint, project = await sprint_of(context)
        changed = sprint.model_copy(update={"note": note.strip(), "changed_at": now()})
        await projects.put_sprint(changed)
        counts = await todos.count_todos(reach=reach_of(context))
        return _told(changed, project, counts)

    return shared(read), shared(update)


def _told(sprint: Sprint, project: Project | None, counts: TodoCounts) -> str:
    of = f" of the project {project.slug}" if project else ""
    return "\n".join(
        (
            f"Sprint {sprint.iteration}{of}",
            f"Goal: {sprint.goal or 'not written down'}",
            f"Todos: {counts.pending} pending, {counts.in_progress} in progress, "
            f"{counts.done} done, {counts.cancelled} cancelled",
            f"Progress: {sprint.note or 'nothing noted yet'}",
        )
    )
