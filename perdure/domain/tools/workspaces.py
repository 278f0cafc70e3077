"""The port to working copies: a run never writes into the user's own folder."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.refs import BlobRef


class Merged(FrozenModel):
    """What a merge did: paths taken over, and paths that both sides had changed differently."""

    tree: BlobRef
    changed: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


class Workspaces(Protocol):
    """Working copies of a user's folder, their snapshots and patches."""

    async def prepare(self, *, run: str, source: str | None, writable: bool) -> str:
        """Make (or find again) the run's working folder and return its absolute path."""
        ...

    async def base(self, *, run: str) -> BlobRef:
        """The tree that the working folder began with; `NotFound` for a run that works in place."""
        ...

    async def snapshot(self, *, run: str, root: str) -> BlobRef:
        """Store the tree (path → blob) and return the reference of its manifest."""
        ...

    async def restore(self, *, run: str, root: str, tree: str, base: str | None = None) -> None:
        """Make the working folder equal to a stored tree; a `base` becomes what it began with."""
        ...

    def checkout(self, *, tree: str) -> AbstractAsyncContextManager[str]:
        """A fresh folder with a stored tree, by absolute path; removed at the end."""
        ...

    async def patch(self, *, base: str, tree: str) -> str:
        """The unified diff from one stored tree to another."""
        ...

    async def merge(self, *, run: str, root: str, base: str, tree: str) -> Merged:
        """Take the changes from `base` to `tree` over into the run's working folder.

        What both changed is merged line by line; where that cannot be done the folder's own version
        stays, and the path is a conflict. A repeat changes nothing.
        """
        ...

    async def apply(self, *, base: str, tree: str, target: str) -> tuple[str, ...]:
        """Write the changes into the user's folder, all or nothing; returns changed paths.

        Raises `NotAllowed` naming the files that changed meanwhile.
        """
        ...

    async def release(self, *, run: str) -> None:
        """Remove the run's working folder; stored trees stay. A repeat does nothing."""
        ...
