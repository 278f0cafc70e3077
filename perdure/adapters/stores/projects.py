"""Sessions, projects, sprints, and the artifacts and todos of a scope, in the database."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, RowMapping, Select, Table, and_, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import artifacts, projects, sessions, sprints, todos
from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.projects.records import (
    Artifact,
    Membership,
    Project,
    Reach,
    Session,
    Sprint,
    Todo,
    TodoCounts,
    TodoStatus,
    numbered,
)


def within(table: Table, reach: Reach) -> ColumnElement[bool]:
    """The condition that a row is within reach."""
    return or_(*(_of(table, belonging) for belonging in reach.belongings))


def columns_of(thing: Artifact | Todo) -> dict[str, object]:
    """The columns that artifacts and todos have in common."""
    kept = thing.model_dump(exclude={"belongs", "order", "by"})
    return {**kept, "scope": thing.belongs.scope, "owner": thing.belongs.owner}


def fields_of(row: RowMapping) -> dict[str, object]:
    """The fields of a row; scope and owner become its `belongs`."""
    fields: Mapping[str, object] = dict(row)
    belongs = {"scope": fields["scope"], "owner": fields["owner"]}
    kept = {name: value for name, value in fields.items() if name not in belongs}
    return {**kept, "belongs": belongs}


async def require_room(
    connection: AsyncConnection,
    table: Table,
    belonging: Membership,
    *,
    limit: int | None,
    what: str,
) -> None:
    """Raise `NotAllowed` if a scope holds as many rows as it may."""
    if limit is None:
        return
    held = await connection.scalar(
        select(func.count()).select_from(table).where(_of(table, belonging))
    )
    if (held or 0) >= limit:
        raise NotAllowed(
            f"The {belonging.scope} {belonging.owner} holds {held} {what}; {limit} are allowed.",
            cure="Use what is there instead of adding more.",
        )


def _of(table: Table, belonging: Membership) -> ColumnElement[bool]:
    return and_(table.c.scope == belonging.scope, table.c.owner == belonging.owner)


LOCK = "perdure projects"


class SqlProjects:
    """`SessionStore` and `ProjectStore` over one table each, and one for sprints."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_session(self, session: Session) -> Session:
        new = self._database.insert(sessions).values(session.model_dump()).on_conflict_do_nothing()
        async with self._database.write() as connection:
            await connection.execute(new)
            return await _session(connection, session.id) or session

    async def session(self, session: str) -> Session | None:
        async with self._database.read() as connection:
            return await _session(connection, session)

    async def sessions(self, *, limit: int = 100) -> Sequence[Session]:
        query = select(sessions).order_by(sessions.c.created_at.desc(), sessions.c.id).limit(limit)
        return [Session.model_validate(dict(row)) for row in await self._database.rows(query)]

    async def close_session(self, session: str, *, at: datetime) -> Session:
        # A second call keeps the time of the first.
        still_open = (sessions.c.id == session) & (sessions.c.state == "open")
        close = update(sessions).where(still_open).values(state="closed", closed_at=at)
        async with self._database.write() as connection:
            await connection.execute(close)
            closed = await _session(connection, session)
        if closed is None:
            raise NotFound(
                f"There is no session {session!r}.", cure="`perdure sessions` lists all."
            )
        return closed

    async def add_project(self, project: Project) -> Project:
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            known = await _project(connection, project.id)
            if known is not None and known.id == project.id:
                return known
            new = project.model_copy(update={"slug": await _free_slug(connection, project.slug)})
            await connection.execute(self._database.insert(projects).values(new.model_dump()))
            return new

    async def project(self, name: str) -> Project | None:
        async with self._database.read() as connection:
            return await _project(connection, name)

    async def projects(self, *, limit: int = 100) -> Sequence[Project]:
        query = select(projects).order_by(projects.c.created_at.desc(), projects.c.id).limit(limit)
        return [Project.model_validate(dict(row)) for row in await self._database.rows(query)]

    async def put_sprint(self, sprint: Sprint) -> None:
        new = self._database.insert(sprints).values(sprint.model_dump())
        changed = {name: new.excluded[name] for name in ("project", "goal", "note", "changed_at")}
        await self._database.change(
            new.on_conflict_do_update(index_elements=["run", "iteration"], set_=changed)
        )

    async def sprint(self, run: str, iteration: int) -> Sprint | None:
        query = select(sprints).where(sprints.c.run == run, sprints.c.iteration == iteration)
        row = await self._database.row(query)
        return None if row is None else Sprint.model_validate(dict(row))

    async def sprints(self, run: str) -> Sequence[Sprint]:
        query = select(sprints).where(sprints.c.run == run).order_by(sprints.c.iteration)
        return [Sprint.model_validate(dict(row)) for row in await self._database.rows(query)]


async def _session(connection: AsyncConnection, session: str) -> Session | None:
    found = await connection.execute(select(sessions).where(sessions.c.id == session))
    row = found.mappings().first()
    return None if row is None else Session.model_validate(dict(row))


async def _project(connection: AsyncConnection, name: str) -> Project | None:
    """A project by id or slug; an id comes before a slug that is equal to it."""
    named = or_(projects.c.id == name, projects.c.slug == name)
    found = await connection.execute(select(projects).where(named))
    rows = [Project.model_validate(dict(row)) for row in found.mappings()]
    return min(rows, key=lambda project: project.id != name, default=None)


async def _free_slug(connection: AsyncConnection, slug: str) -> str:
    """The slug, or the slug with a number; found in few queries however many are taken."""
    taken, free = 0, 1
    while await _is_taken(connection, numbered(slug, free)):
        taken, free = free, free * 2
    while free - taken > 1:
        middle = (taken + free) // 2
        if await _is_taken(connection, numbered(slug, middle)):
            taken = middle
        else:
            free = middle
    return numbered(slug, free)


async def _is_taken(connection: AsyncConnection, slug: str) -> bool:
    found = select(projects.c.id).where(projects.c.slug == slug)
    return await connection.scalar(found) is not None


class SqlArtifacts:
    """`ArtifactStore` over one table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_artifact(
        self, artifact: Artifact, *, limit: int | None = None, replaces: bool = False
    ) -> Artifact:
        same = select(artifacts).where(artifacts.c.id == artifact.id)
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            known = await _artifact(connection, same)
            if known:
                same_run = known[0].run == artifact.run
                if not (replaces and same_run) or known[0].ref == artifact.ref:
                    return known[0]
                change = update(artifacts).where(artifacts.c.id == artifact.id)
                await connection.execute(change.values(columns_of(artifact)))
                return artifact
            # Only for a new one: the first try of a repeated step may have taken the last place.
            await require_room(
                connection, artifacts, artifact.belongs, limit=limit, what="artifacts"
            )
            await connection.execute(self._database.insert(artifacts).values(columns_of(artifact)))
            return artifact

    async def artifact(self, artifact: str, *, reach: Reach) -> Artifact | None:
        query = select(artifacts).where(artifacts.c.id == artifact, within(artifacts, reach))
        found = await self._found(query)
        return found[0] if found else None

    async def artifacts(
        self, *, reach: Reach, kind: str | None = None, limit: int = 100
    ) -> Sequence[Artifact]:
        query = select(artifacts).where(within(artifacts, reach))
        if kind is not None:
            query = query.where(artifacts.c.kind == kind)
        newest = query.order_by(artifacts.c.created_at.desc(), artifacts.c.id)
        return await self._found(newest.limit(limit))

    async def artifacts_of_run(self, run: str) -> Sequence[Artifact]:
        query = select(artifacts).where(artifacts.c.run == run)
        return await self._found(query.order_by(artifacts.c.created_at, artifacts.c.id))

    async def _found(self, query: Select[tuple[object, ...]]) -> list[Artifact]:
        async with self._database.read() as connection:
            return await _artifact(connection, query)


async def _artifact(
    connection: AsyncConnection, query: Select[tuple[object, ...]]
) -> list[Artifact]:
    rows = await connection.execute(query)
    return [Artifact.model_validate(fields_of(row)) for row in rows.mappings()]


class SqlTodos:
    """`TodoStore` over one table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_todo(self, todo: Todo, *, limit: int | None = None) -> Todo:
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            known = await _todo(connection, todo.id)
            if known is not None:
                return known
            # Only for a new one, as with artifacts.
            await require_room(connection, todos, todo.belongs, limit=limit, what="todos")
            new = todo.model_copy(update={"order": await _next_position(connection, todo)})
            row = {**columns_of(new), "position": new.order, "written_by": new.by}
            await connection.execute(self._database.insert(todos).values(row))
            return new

    async def todos(self, *, reach: Reach, status: TodoStatus | None = None) -> Sequence[Todo]:
        query = select(todos).where(within(todos, reach))
        if status is not None:
            query = query.where(todos.c.status == status)
        # People set positions, so two todos may have the same one.
        ordered = query.order_by(todos.c.position, todos.c.created_at, todos.c.id)
        return [_todo_of(row) for row in await self._database.rows(ordered)]

    async def change_todo(
        self,
        todo: str,
        *,
        reach: Reach,
        at: datetime,
        status: TodoStatus | None = None,
        text: str | None = None,
        order: int | None = None,
    ) -> Todo | None:
        given = {"status": status, "text": text, "position": order}
        changes = {name: value for name, value in given.items() if value is not None}
        meant = (todos.c.id == todo) & within(todos, reach)
        change = update(todos).where(meant).values(**changes, changed_at=at)
        async with self._database.write() as connection:
            changed = await connection.execute(change)
            return await _todo(connection, todo) if changed.rowcount else None

    async def count_todos(self, *, reach: Reach) -> TodoCounts:
        query = select(todos.c.status, func.count()).where(within(todos, reach))
        async with self._database.read() as connection:
            counted = (await connection.execute(query.group_by(todos.c.status))).all()
        return TodoCounts.model_validate({str(status): count for status, count in counted})


async def _todo(connection: AsyncConnection, todo: str) -> Todo | None:
    row = (await connection.execute(select(todos).where(todos.c.id == todo))).mappings().first()
    return None if row is None else _todo_of(row)


def _todo_of(row: RowMapping) -> Todo:
    fields = fields_of(row)
    order, by = fields.pop("position"), fields.pop("written_by")
    return Todo.model_validate({**fields, "order": order, "by": by})


async def _next_position(connection: AsyncConnection, todo: Todo) -> int:
    own = (todos.c.scope == todo.belongs.scope) & (todos.c.owner == todo.belongs.owner)
    last = await connection.scalar(select(func.max(todos.c.position)).where(own))
    return 1 if last is None else int(last) + 1
