"""The ports to what runs share. Every write may be repeated."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from perdure.domain.projects.records import (
    Artifact,
    Project,
    Reach,
    Session,
    Sprint,
    Todo,
    TodoCounts,
    TodoStatus,
)


class SessionStore(Protocol):
    """Sittings that runs are started from."""

    async def add_session(self, session: Session) -> Session:
        """Keep a new session; when the id is known, the kept one is returned unchanged."""
        ...

    async def session(self, session: str) -> Session | None:
        """The session of that id, or None."""
        ...

    async def sessions(self, *, limit: int = 100) -> Sequence[Session]:
        """Sessions, the newest first."""
        ...

    async def close_session(self, session: str, *, at: datetime) -> Session:
        """Close a session, once; raises `NotFound`."""
        ...


class ProjectStore(Protocol):
    """Goals that runs work on, and the sprints of their iterations."""

    async def add_project(self, project: Project) -> Project:
        """Keep a new project, under the next free number when its slug is taken.

        When the id is known, the kept one is returned unchanged.
        """
        ...

    async def project(self, name: str) -> Project | None:
        """The project of that id or slug, or None."""
        ...

    async def projects(self, *, limit: int = 100) -> Sequence[Project]:
        """Projects, the newest first."""
        ...

    async def put_sprint(self, sprint: Sprint) -> None:
        """Keep a sprint, over an earlier one of the same run and iteration."""
        ...

    async def sprint(self, run: str, iteration: int) -> Sprint | None:
        """The sprint of one iteration, or None."""
        ...

    async def sprints(self, run: str) -> Sequence[Sprint]:
        """All sprints of a run, in order."""
        ...


class ArtifactStore(Protocol):
    """What runs made, by reference to the blob store."""

    async def add_artifact(
        self, artifact: Artifact, *, limit: int | None = None, replaces: bool = False
    ) -> Artifact:
        """Keep an artifact; when the id is known, the kept one is returned unchanged.

        With `replaces`, other content under an id of the same run takes the place of the former.

        Raises `NotAllowed` when its scope would hold more than `limit` artifacts.
        """
        ...

    async def artifact(self, artifact: str, *, reach: Reach) -> Artifact | None:
        """The artifact of that id when it is within reach, or None."""
        ...

    async def artifacts(
        self, *, reach: Reach, kind: str | None = None, limit: int = 100
    ) -> Sequence[Artifact]:
        """What is within reach, the newest first."""
        ...

    async def artifacts_of_run(self, run: str) -> Sequence[Artifact]:
        """Everything that a run made, in whatever scope, in the order of making."""
        ...


class TodoStore(Protocol):
    """Things to do."""

    async def add_todo(self, todo: Todo, *, limit: int | None = None) -> Todo:
        """Keep a todo at the end of its list; a known id returns the kept one unchanged.

        Raises `NotAllowed` when its scope would hold more than `limit` todos.
        """
        ...

    async def todos(self, *, reach: Reach, status: TodoStatus | None = None) -> Sequence[Todo]:
        """What is within reach, in order."""
        ...

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
        """Change what is given of a todo within reach; None when there is none."""
        ...

    async def count_todos(self, *, reach: Reach) -> TodoCounts:
        """How many todos of each status are within reach."""
        ...
