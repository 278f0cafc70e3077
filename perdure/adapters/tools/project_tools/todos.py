"""Tools for todos and sprints, which the stages of a run share."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated

from pydantic import Field

from perdure.adapters.tools.host import AnyTool
from perdure.adapters.tools.project_tools.scope import author_of, id_of, reach_of, shared
from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.projects.ports import ProjectStore, TodoStore
from perdure.domain.projects.records import Project, ScopeKind, Sprint, Todo, TodoCounts, TodoStatus
from perdure.extending.tool_decorator import ToolContext, tool

TEXT_CHARACTERS = 500
NOTE_CHARACTERS = 2_000
ITEMS_AT_ONCE = 20
TODOS_OF_A_SCOPE = 500
LISTED = 200
_MARKS: dict[TodoStatus, str] = {
    "pending": "[ ]",
    "in_progress": "[~]",
    "done": "[x]",
    "cancelled": "[-]",
}
TodoText = Annotated[str, Field(min_length=1, max_length=TEXT_CHARACTERS)]


def todo_tools(todos: TodoStore, *, now: Callable[[], datetime]) -> tuple[AnyTool, ...]:
    return _add(todos, now=now), _list(todos), _update(todos, now=now)


def _add(todos: TodoStore, *, now: Callable[[], datetime]) -> AnyTool:
    @tool(name="todo.add", idempotent=True)
    async def add(
        context: ToolContext,
        items: Annotated[list[TodoText], Field(min_length=1, max_length=ITEMS_AT_ONCE)],
        scope: ScopeKind | None = None,
    ) -> str:
        """Write down things to do, at the end of the list.

        Args:
            items: one short sentence each.
            scope: whose list: run, session or project; left out: the widest there is.
        """
        belongs, at = reach_of(context).belonging(scope), now()
        kept: list[Todo] = []
        for place, item in enumerate(items):
            todo = Todo(
                # With the place, so that the items of one call have different ids.
                id=id_of("todo", context, str(place)),
                belongs=belongs,
                run=context.run,
                text=_one_line(item),
                by=author_of(context),
                created_at=at,
                changed_at=at,
            )
            # One after the other: the store gives each the next place in the list.
            kept.append(await todos.add_todo(todo, limit=TODOS_OF_A_SCOPE))
        return "\n".join(map(_line, kept))

    return shared(add)


def _list(todos: TodoStore) -> AnyTool:
    @tool(name="todo.list", idempotent=True)
    async def list_(context: ToolContext, status: TodoStatus | None = None) -> str:
        """List what is to do, in order, with the id that todo.update takes.

        Args:
            status: of this status alone.
        """
        found = await todos.todos(reach=reach_of(context), status=status)
        if not found:
            return "There is nothing to do on the list."
        more = len(found) - LISTED
        rest = [f"[{more} more: ask for one status]"] if more > 0 else []
        return "\n".join([*map(_line, found[:LISTED]), *rest])

    return shared(list_)


def _update(todos: TodoStore, *, now: Callable[[], datetime]) -> AnyTool:
    @tool(name="todo.update", idempotent=True)
    async def update(
        context: ToolContext,
        id: str,
        status: TodoStatus | None = None,
        text: TodoText | None = None,
        order: Annotated[int, Field(ge=0, le=1_000_000)] | None = None,
    ) -> str:
        """Change a todo: its status, its text, or where it stands in the list.

        Args:
            id: as todo.list shows it.
            status: pending, in_progress, done or cancelled.
            text: its new text.
            order: its new place; smaller ones come first.
        """
        if status is None and text is None and order is None:
            raise ToolFailure(
                "Nothing to change: give status, text or order.", reason="invalid_arguments"
            )
        changed = await todos.change_todo(
            id.strip(),
            reach=reach_of(context),
            at=now(),
            status=status,
            text=None if text is None else _one_line(text),
            order=order,
        )
        if changed is None:
            raise ToolFailure(
                f"There is no todo {id[:60]!r}. todo.list shows what there is.", reason="not_found"
            )
        return _line(changed)

    return shared(update)


def _line(todo: Todo) -> str:
    return f"{_MARKS[todo.status]} {todo.id} {todo.text} ({todo.by})"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    if not line:
        raise ToolFailure("text: a todo needs words; found none.", reason="invalid_arguments")
    return line


def sprint_tools(
    projects: ProjectStore, todos: TodoStore, *, now: Callable[[], datetime]
) -> tuple[AnyTool, ...]:

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
        context: ToolContext, note: Annotated[str, Field(min_length=1, max_length=NOTE_CHARACTERS)]
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
