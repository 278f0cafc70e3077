"""The store of loop definitions: workspace before home folder before built-in ones."""

import asyncio
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from perdure.adapters.definitions.folder import LoopFolder, role_file, stored, taken
from perdure.domain.foundation.errors import NotAllowed, NotFound, PreconditionRequired
from perdure.domain.foundation.problems import did_you_mean
from perdure.domain.roles.definition_library import Library, RoleFile, StoredDefinition, refusal
from perdure.domain.roles.parse_definition import Fields
from perdure.strict_yaml import parse

DEFINITIONS = Path(str(files("perdure"))) / "definitions"


@cache
def built_in_loops() -> dict[str, StoredDefinition]:
    """The built-in definitions by name; a test checks that each is valid."""
    found: dict[str, StoredDefinition] = {}
    for path in sorted((DEFINITIONS / "loops").glob("*.yaml")):
        fields = parse(path.read_text(encoding="utf-8"), named=path.name)
        read = stored(fields, origin="built-in")
        if isinstance(read, tuple):
            raise refusal(read, what=f"The built-in loop {path.stem}")
        found[read.name] = read
    return found


@cache
def built_in_roles() -> dict[str, RoleFile]:
    """The built-in roles by name."""
    paths = sorted((DEFINITIONS / "roles").glob("*.md"))
    return {
        path.stem: role_file(path.read_text(encoding="utf-8"), name=path.stem) for path in paths
    }


class LoopFiles:
    """Definitions as files; see `DefinitionStore`.

    Args:
        home: the home folder of the installation.
        roles: roles that the embedding program passed in, by name; they hide built-in ones.
        definitions: definitions that it passed in, likewise.
    """

    def __init__(
        self,
        home: Path,
        *,
        roles: Mapping[str, RoleFile] | None = None,
        definitions: Mapping[str, StoredDefinition] | None = None,
    ) -> None:
        self._home = home
        self._roles = roles or {}
        self._definitions = definitions or {}

    async def library(self, workspace: str | None = None) -> Library:
        return await asyncio.to_thread(self._library, workspace)

    async def get(self, name: str, *, workspace: str | None = None) -> StoredDefinition:
        return await asyncio.to_thread(self._get, name, workspace)

    async def create(
        self, fields: Fields, *, only_new: bool, workspace: str | None = None
    ) -> StoredDefinition:
        """Add a definition under the name in its fields."""
        return await asyncio.to_thread(self._create, fields, only_new, workspace)

    async def update(
        self, name: str, fields: Fields, *, version: str | None, workspace: str | None = None
    ) -> StoredDefinition:
        """Replace a definition; its name cannot change."""
        folder = await asyncio.to_thread(self._owner, name, workspace)
        return await asyncio.to_thread(folder.change, name, fields, version=version)

    async def delete(self, name: str, *, version: str | None, workspace: str | None = None) -> None:
        """Remove a definition; open runs keep their copy of it."""
        folder = await asyncio.to_thread(self._owner, name, workspace)
        await asyncio.to_thread(folder.remove, name, version=version)

    def _library(self, workspace: str | None) -> Library:
        shelves = [folder.shelf() for folder in self._folders(workspace)]
        found = {**built_in_loops(), **self._definitions}
        # The nearest folder comes last, so that its definitions hide the others.
        for shelf in reversed(shelves):
            found.update(shelf.definitions)
        return Library(
            definitions=dict(sorted(found.items())),
            roles={**built_in_roles(), **self._roles},
            broken=tuple(broken for shelf in shelves for broken in shelf.broken),
        )

    def _get(self, name: str, workspace: str | None) -> StoredDefinition:
        known = self._library(workspace).definitions
        if name not in known:
            hint = did_you_mean(name, known)
            raise NotFound(
                f"There is no loop definition {name!r}.{hint}",
                cure=f"There are: {', '.join(known)}.",
            )
        return known[name]

    def _create(self, fields: Fields, only_new: bool, workspace: str | None) -> StoredDefinition:
        if not only_new:
            raise PreconditionRequired(
                "A new definition must be asked for as new, so that it never replaces another.",
                cure="Send `If-None-Match: *`.",
            )
        # Looks at all folders; `add` asks once more about its own, under the lock.
        known = self._library(workspace).definitions.get(str(fields.get("name")))
        if known is not None:
            raise taken(known.name, known.path or "built in")
        return self._folders(workspace)[0].add(fields)

    def _owner(self, name: str, workspace: str | None) -> LoopFolder:
        """The folder whose definition of that name is used."""
        found = self._get(name, workspace)
        if found.origin == "built-in":
            raise NotAllowed(
                f"The loop definition {name} is built in and stays as it is.",
                cure="Create one of your own under another name.",
            )
        folders = self._folders(workspace)
        return folders[0] if found.origin == "workspace" else folders[-1]

    def _folders(self, workspace: str | None) -> list[LoopFolder]:
        """The folders of definitions, the nearest first."""
        home = LoopFolder(self._home, origin="home")
        if workspace is None:
            return [home]
        near = LoopFolder(Path(workspace), origin="workspace")
        return [near, home]
