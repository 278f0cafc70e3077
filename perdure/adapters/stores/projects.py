"""Sessions, projects and sprints in the database."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import projects, sessions, sprints
from perdure.domain.foundation.errors import NotFound
from perdure.domain.projects.naming import numbered
from perdure.domain.projects.records import Project, Session, Sprint

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
        async with self._database.read() as connection:
            found = await connection.execute(query)
            return [Session.model_validate(dict(row)) for row in found.mappings()]

    async def close_session(self, session: str, *, at: datetime) -> Session:
        still_open = (sessions.c.id == session) & (sessions.c.state == "open")
        close = update(sessions).where(still_open).values(state="closed", closed_at=at)
        async with self._database.write() as connection:
            await connection.execute(close)
            closed = await _session(connection, session)
        if closed is None:
            raise NotFound(
                f"There is no session {session!r}.", cure="`perdure sessions` shows what there is."
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
        async with self._database.read() as connection:
            found = await connection.execute(query)
            return [Project.model_validate(dict(row)) for row in found.mappings()]

    async def put_sprint(self, sprint: Sprint) -> None:
        new = self._database.insert(sprints).values(sprint.model_dump())
        changed = {name: new.excluded[name] for name in ("project", "goal", "note", "changed_at")}
        async with self._database.write() as connection:
            await connection.execute(
                new.on_conflict_do_update(index_elements=["run", "iteration"], set_=changed)
            )

    async def sprint(self, run: str, iteration: int) -> Sprint | None:
        query = select(sprints).where(sprints.c.run == run, sprints.c.iteration == iteration)
        async with self._database.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else Sprint.model_validate(dict(row))

    async def sprints(self, run: str) -> Sequence[Sprint]:
        query = select(sprints).where(sprints.c.run == run).order_by(sprints.c.iteration)
        async with self._database.read() as connection:
            found = await connection.execute(query)
            return [Sprint.model_validate(dict(row)) for row in found.mappings()]


async def _session(connection: AsyncConnection, session: str) -> Session | None:
    found = await connection.execute(select(sessions).where(sessions.c.id == session))
    row = found.mappings().first()
    return None if row is None else Session.model_validate(dict(row))


async def _project(connection: AsyncConnection, name: str) -> Project | None:
    """By id or slug; the id wins where one project is called like another's id."""
    named = or_(projects.c.id == name, projects.c.slug == name)
    found = await connection.execute(select(projects).where(named))
    rows = [Project.model_validate(dict(row)) for row in found.mappings()]
    return min(rows, key=lambda project: project.id != name, default=None)


async def _free_slug(connection: AsyncConnection, slug: str) -> str:
    """The slug, or one with a number behind it; found in few looks however many are taken."""
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
