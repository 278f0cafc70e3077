"""Checks that the stores have what a task names: content, skills, a session, a project."""

from typing import Protocol

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.foundation.errors import NotFound, PerdureError
from perdure.domain.foundation.problems import format_value, nearest_name
from perdure.domain.llm.attachments import attachment_in
from perdure.domain.memory.entries import Skill
from perdure.domain.memory.store import MemoryStore
from perdure.domain.ports import BlobStore
from perdure.domain.projects.ports import ProjectStore, SessionStore
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.specs import Spec
from perdure.gateway.project_assignment import known_project, open_session

SKILLS_COMPARED = 1_000


class ReferenceStores(Protocol):
    """The stores that references point to: blobs, memory, sessions, projects."""

    @property
    def blobs(self) -> BlobStore: ...

    @property
    def memory(self) -> MemoryStore: ...

    @property
    def sessions(self) -> SessionStore: ...

    @property
    def projects(self) -> ProjectStore: ...


class StoredReferences:
    """Looks up the references of a specification before anything is started."""

    def __init__(self, stores: ReferenceStores) -> None:
        self._stores = stores

    async def problems(self, spec: Spec, /) -> list[str]:
        """A line `path: what is wrong` for each reference that points to nothing."""
        found = [await self._unless_stored(*named) for named in _addresses(spec).items()]
        found += [await self._unless_known(at, name) for at, name in enumerate(spec.skills)]
        if isinstance(spec, RolesSpec):
            found += await self._of_roles(spec)
        return [problem for problem in found if problem]

    async def _unless_stored(self, path: str, address: str) -> str:
        try:
            stored = await self._stores.blobs.exists(address)
        except NotFound as error:  # malformed address
            return f"{path}: {error}"
        return "" if stored else f"{path}: the store has no content {address}"

    async def _unless_known(self, at: int, name: str) -> str:
        if await self._stores.memory.skill(name) is not None:
            return ""
        known = await self._stores.memory.list(kinds=("skill",), limit=SKILLS_COMPARED)
        near = nearest_name(name, [one.name for one in known if isinstance(one, Skill)])
        hint = f"Did you mean {near}?" if near else "`perdure skills` lists them"
        return f"skills[{at}]: there is no skill {format_value(name)}. {hint}"

    async def _of_roles(self, spec: RolesSpec) -> list[str]:
        found: list[str] = []
        try:
            if spec.roles.session is not None:
                await open_session(self._stores.sessions, spec.roles.session)
        except PerdureError as error:
            found.append(f"roles.session: {error}")
        try:
            if spec.roles.project is not None:
                await known_project(self._stores.projects, spec.roles.project)
        except PerdureError as error:
            found.append(f"roles.project: {error}")
        return found


def _addresses(spec: Spec) -> dict[str, str]:
    """The addresses that a specification names, by the path of the field."""
    shown = {f"context.{name}": attachment_in(value) for name, value in spec.context.items()}
    found = {path: attachment.ref for path, attachment in shown.items() if attachment is not None}
    if isinstance(spec, AgentSpec) and spec.agent.transcript is not None:
        found["agent.transcript"] = spec.agent.transcript
    return found
