"""The loops and roles that a run may use, and the port of the store that keeps definitions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import Problem
from perdure.domain.roles.definition import LoopDefinition, ModelNames
from perdure.domain.roles.parse_definition import Fields
from perdure.domain.tools.definitions import AccessLevel

Origin = Literal["built-in", "home", "workspace"]


class RoleFile(FrozenModel):
    """What a role brings to each loop: its system prompt, and how far it reaches.

    A definition's own words go over these. `tools` narrows what the access level offers.
    """

    name: str
    access: AccessLevel = "readonly"
    model: ModelNames | None = None
    tools: tuple[str, ...] | None = None
    system: str


class StoredDefinition(FrozenModel):
    """A loop definition where it lies.

    Args:
        name: by which it is started.
        origin: built in, or from the `loops` folder of the home or of a workspace.
        version: the hash of its content; an ETag is this in double quotes.
        fields: as its author wrote it, placeholders and all.
        definition: the same, read; where a limit is a parameter, its default stands in.
        path: its file; None for a built-in one.
    """

    name: str
    origin: Origin
    version: str
    fields: Fields
    definition: LoopDefinition
    path: str | None = None

    @property
    def etag(self) -> str:
        """The version as HTTP writes it."""
        return f'"{self.version}"'


class BrokenDefinition(FrozenModel):
    """A file among the definitions that cannot be read as one."""

    path: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Library:
    """Every definition that can be named, the nearest first, and the files of the roles.

    Workspace definitions override home definitions, which override built-in ones.
    """

    definitions: Mapping[str, StoredDefinition]
    roles: Mapping[str, RoleFile]
    broken: tuple[BrokenDefinition, ...] = ()


class DefinitionStore(Protocol):
    """Loop definitions: built in, of the home, and of a workspace (an absolute folder).

    Changes are written to the workspace's `loops` folder, or the home's without a workspace, whole
    or not at all. A version is the content's hash, so it says what somebody has seen.
    """

    async def library(self, workspace: str | None = None) -> Library:
        """All definitions that a run in this workspace may name."""
        ...

    async def get(self, name: str, *, workspace: str | None = None) -> StoredDefinition:
        """One definition; raises `NotFound` with the nearest name."""
        ...

    async def create(
        self, fields: Fields, *, only_new: bool, workspace: str | None = None
    ) -> StoredDefinition:
        """Add a definition under the name in its fields.

        Raises:
            PreconditionRequired: `only_new` is not set (over HTTP: `If-None-Match: *`).
            Conflict: the name is taken, by a built-in one too.
            InvalidInput: it is no definition, or sets what only the store may set.
        """
        ...

    async def update(
        self, name: str, fields: Fields, *, version: str | None, workspace: str | None = None
    ) -> StoredDefinition:
        """Replace a definition; the name stays.

        Raises:
            NotFound: there is none of that name.
            NotAllowed: it is built in.
            PreconditionRequired: no version was given (over HTTP: `If-Match`).
            VersionConflict: another version is there by now.
            InvalidInput: as for `create`, or the fields name another.
        """
        ...

    async def delete(self, name: str, *, version: str | None, workspace: str | None = None) -> None:
        """Remove a definition; runs that are under way keep theirs. Raises as `update`."""
        ...


def refusal(problems: tuple[Problem, ...], *, what: str) -> InvalidInput:
    """One error that lists everything wrong with a definition."""
    lines = "\n".join(f"  {problem}" for problem in problems)
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return InvalidInput(
        f"{what} has {count}:\n{lines}\n",
        cure="Correct them all; `perdure schema loop-definition` shows what a definition holds.",
        problems=((problem.path, problem.words) for problem in problems),
    )
