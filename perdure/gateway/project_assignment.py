"""Assigns the session and project of a run: those that it names, or new ones."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.projects.ports import ProjectStore, SessionStore
from perdure.domain.projects.records import HEADLESS, Project, Session, slug_of, stable_id
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.specs import Spec


@dataclass(frozen=True, kw_only=True)
class Settling:
    """Gives a run of roles the ids of its session and project.

    Args:
        sessions: the session store.
        projects: the project store.
        now: the clock.
        words: the words of a goal that may enter the name of a project, which is not encrypted.
    """

    sessions: SessionStore
    projects: ProjectStore
    now: Callable[[], datetime]
    words: Callable[[str], str] = str

    async def settle(self, spec: Spec, run: str) -> Spec:
        """The specification with both ids; a repeat for the same run returns the same ids.

        Raises:
            NotFound: the named session or project does not exist.
            NotAllowed: the named session is closed.
        """
        if not isinstance(spec, RolesSpec):
            return spec
        named = spec.roles
        # Look for both before making either, so that a refused start leaves nothing behind.
        session = (
            None if named.session is None else await open_session(self.sessions, named.session)
        )
        project = (
            None if named.project is None else await known_project(self.projects, named.project)
        )
        if session is None:
            session = await self.sessions.add_session(
                Session(id=stable_id("session", run), title=HEADLESS, created_at=self.now())
            )
        if project is None:
            project = await self.projects.add_project(self._new_project(spec.goal, run))
        ids = {"session": session.id, "project": project.id}
        return spec.model_copy(update={"roles": named.model_copy(update=ids)})

    def _new_project(self, goal: str, run: str) -> Project:
        return Project(
            id=stable_id("project", run),
            slug=slug_of(self.words(goal)),
            goal=goal,
            created_at=self.now(),
        )


async def open_session(sessions: SessionStore, name: str) -> Session:
    """A session by id; raises `NotFound`, or `NotAllowed` if it is closed."""
    session = await sessions.session(name)
    if session is None:
        raise NotFound(
            f"There is no session {name!r}.",
            cure="`perdure sessions` lists all; without --session the run gets its own.",
        )
    if session.state == "closed":
        raise NotAllowed(
            f"The session {session.id} is closed.",
            cure="Name an open one, or none: the run then gets its own.",
        )
    return session


async def known_project(projects: ProjectStore, name: str) -> Project:
    """A project by id or slug; raises `NotFound`."""
    project = await projects.project(name)
    if project is None:
        raise NotFound(
            f"There is no project {name!r}.",
            cure="`perdure projects` lists all; without one the run gets its own, "
            "named after its goal.",
        )
    return project


async def as_it_is(spec: Spec, run: str) -> Spec:
    """Leave the specification unchanged, for clients without project stores."""
    return spec
