"""The port to working copies: a run never writes into the user's own folder."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.refs import BlobRef

# How long the first step waits for a worker of the host before anybody asks whether it is there.
HOST_WAIT_S = 3.0
LONGEST_HOST_WAIT_S = 600.0


class HostedFolder(FrozenModel):
    """Where a run's own working folder is, in an installation of several hosts.

    Only the workers of that host poll `queue`. `tree` is the newest snapshot of the folder, which
    another host makes it from when this one is gone; None: it is as it was opened. A step waits
    `wait_s` seconds for a worker before the host is asked whether it is there. One that was `moved`
    from another host lacks what snapshots leave out, and the model has not been told yet.
    """

    queue: str
    tree: str | None = None
    wait_s: float = HOST_WAIT_S
    moved: bool = False

    def with_tree(self, tree: str | None) -> "HostedFolder":
        """The folder with this content."""
        return self if tree is None else self.model_copy(update={"tree": tree})

    def with_longer_wait(self) -> "HostedFolder":
        """The folder of a host that is there and has no hand free: it is given more time."""
        longer = min(self.wait_s * 2, LONGEST_HOST_WAIT_S)
        return self.model_copy(update={"wait_s": longer})


class StoredFiles(FrozenModel):
    """A stored working folder; `left_out` names the files that are not in it, each with why."""

    tree: BlobRef
    left_out: tuple[str, ...] = ()


class Merged(FrozenModel):
    """What a merge did: paths taken over, and paths that both sides had changed differently.

    A path counts as taken over also where the folder has it so already.
    """

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

    async def require(self, *, root: str) -> None:
        """Raise `FolderGone` for a working folder that is not there."""
        ...

    async def snapshot(self, *, run: str, root: str) -> StoredFiles:
        """Store the tree (path → blob), whose manifest is referred to; too large files stay out.

        Raises `FolderGone` where there is no such folder.
        """
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
        stays, and the path is a conflict. A repeat changes nothing, and names the same paths.
        """
        ...

    async def apply(self, *, base: str, tree: str, target: str) -> tuple[str, ...]:
        """Write the changes into the user's folder, all or nothing; returns changed paths.

        Raises `NotAllowed` naming the files that changed meanwhile.
        """
        ...

    async def runs(self) -> Mapping[str, datetime]:
        """The runs that have a working folder on this host, each with the time it was made."""
        ...

    async def release(self, *, run: str) -> None:
        """Remove the run's working folder; stored trees stay. A repeat does nothing."""
        ...

    async def remove_unfinished(self) -> None:
        """Remove what killed processes of this host left half made; what is in use stays."""
        ...
