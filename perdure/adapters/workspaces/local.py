"""Working folders on this host (port `Workspaces`): one per run, apart from the user's folder.

A folder's note is written last, so a preparation that died half-way is started again. It is made
under its lock: one without a note whose lock nobody holds was left by a process that was killed.
"""

import asyncio
import hashlib
import os
import re
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from perdure.adapters.files.private import write_once
from perdure.adapters.files.rooted_files import remove_folder
from perdure.adapters.git.safe_repository import find_repository
from perdure.adapters.workspaces import working_copies
from perdure.adapters.workspaces.apply_changes import Change, apply_changes
from perdure.adapters.workspaces.folder_locks import lock_of, try_lock, unlock
from perdure.adapters.workspaces.patches import unified_patch
from perdure.adapters.workspaces.snapshots import (
    Leaf,
    Mode,
    Snapshots,
    changed_paths,
    left_out,
    list_files,
    load_tree,
    look,
    restore,
    store_tree,
)
from perdure.adapters.workspaces.three_way_merge import merge_trees
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import (
    FolderGone,
    InvalidInput,
    NotAllowed,
    NotFound,
    StoreAway,
    ToolFailure,
)
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.ports import BlobStore
from perdure.domain.tools.workspaces import Merged, StoredFiles
from perdure.event_log import get_logger

_log = get_logger(__name__)

LOCK_POLL_S = 0.05
# The folder below the home folder that has all working folders of a host.
WORK_FOLDER = "work"
NOTE = "note.json"
HOST_FILE = ".host"
HOST_BYTES = 8
CHECK_BYTES = 8

Kind = Literal["worktree", "copy", "scratch"]


class WorkingFolder(FrozenModel):
    """What is noted of one prepared folder."""

    run: str
    kind: Kind
    source: str | None
    root: str
    base: BlobRef


class LocalWorkspaces:
    """Working copies below one folder of this host.

    Args:
        home: the parent of all working folders; created if missing, private to this user.
        blobs: where trees and contents are stored.
    """

    def __init__(self, home: Path, blobs: BlobStore) -> None:
        self._home = home.absolute()
        self._blobs = blobs
        self._snapshots = Snapshots(blobs)

    async def prepare(self, *, run: str, source: str | None, writable: bool) -> str:
        """Make or find the run's working folder and return its absolute path.

        Without write access the run reads the user's folder in place. The copy contains uncommitted
        and new files, but not ignored ones.

        Raises:
            InvalidInput: the source is not a folder, or is too large for a copy.
        """
        if source is not None:
            source = _folder(source)
            if not writable:
                return source
        async with self._locked(self._place(run)):
            note = self._note(run)
            if note is not None and Path(note.root).is_dir():
                return note.root
            return (await self._make(run, source)).root

    async def base(self, *, run: str) -> BlobRef:
        """The tree that the run's working folder began with."""
        return self._required(run).base

    async def require(self, *, root: str) -> None:
        """Refuse to work in a folder that does not exist.

        Raises:
            FolderGone: it was removed, or it is on another host.
        """
        if not await asyncio.to_thread(os.path.isdir, root):
            raise FolderGone(
                f"The working folder {root} is gone from this host.",
                cure="The run makes it anew from its newest snapshot.",
            )

    async def snapshot(self, *, run: str, root: str) -> StoredFiles:
        """Store the tree (path to blob and mode); what is out of reach is left out and named.

        Raises:
            FolderGone: the folder does not exist.
        """
        await self.require(root=root)
        note = self._note(run)
        known = await load_tree(self._blobs, note.base.hash) if note else {}
        tree, missing = await self._snapshots.take(root, also=known)
        return StoredFiles(tree=await store_tree(self._blobs, tree), left_out=missing)

    async def restore(self, *, run: str, root: str, tree: str, base: str | None = None) -> None:
        """Make the working folder equal to a stored tree; ignored files stay.

        With a `base`, that tree is from now on what the run's changes are compared with.

        Raises:
            NotAllowed: `root` is not the working folder of this run.
        """
        note = self._required(run)
        if os.path.realpath(root) != os.path.realpath(note.root):
            raise NotAllowed(
                f"{root} is not the working folder of {run}.", cure=f"That is {note.root}."
            )
        wanted = await load_tree(self._blobs, tree)
        known = await load_tree(self._blobs, note.base.hash)
        present = await list_files(root, also=known)
        await restore(self._blobs, root=root, tree=wanted, present=present)
        if base is not None and base != note.base.hash:
            self._keep(note.model_copy(update={"base": BlobRef(hash=base)}))

    @asynccontextmanager
    async def checkout(self, *, tree: str) -> AsyncGenerator[str]:
        """A new folder with a stored tree, which is removed after the block."""
        place = self._home / f"check-{secrets.token_hex(CHECK_BYTES)}"
        async with self._locked(place):
            try:
                root = _new_root(place)
                wanted = await load_tree(self._blobs, tree)
                await restore(self._blobs, root=root, tree=wanted, present=())
                yield root
            finally:
                # A folder that is left over must not fail a step whose work is done.
                with suppress(OSError, ToolFailure, StoreAway):
                    await asyncio.to_thread(remove_folder, place)

    async def patch(self, *, base: str, tree: str) -> str:
        return await unified_patch(
            self._blobs, await load_tree(self._blobs, base), await load_tree(self._blobs, tree)
        )

    async def merge(self, *, run: str, root: str, base: str, tree: str) -> Merged:
        """Merge the changes from one stored tree to another into a run's working folder.

        Raises:
            NotAllowed: `root` is not the working folder of this run.
        """
        ours = (await self.snapshot(run=run, root=root)).tree
        present = await load_tree(self._blobs, ours.hash)
        merged, changed, conflicts = await merge_trees(
            self._blobs,
            base=await load_tree(self._blobs, base),
            ours=present,
            theirs=await load_tree(self._blobs, tree),
        )
        if merged == present:
            return Merged(tree=ours, changed=changed, conflicts=conflicts)
        stored = await store_tree(self._blobs, merged)
        await self.restore(run=run, root=root, tree=stored.hash)
        return Merged(tree=stored, changed=changed, conflicts=conflicts)

    async def apply(self, *, base: str, tree: str, target: str) -> tuple[str, ...]:
        """Write the changes into the user's folder, all or nothing; returns changed paths.

        Raises:
            NotAllowed: files have changed meanwhile, or are protected; all are named.
        """
        old, new = await load_tree(self._blobs, base), await load_tree(self._blobs, tree)
        changes = [
            Change(path, await self._content(old.get(path)), await self._content(new.get(path)))
            for path in changed_paths(old, new)
        ]
        return await asyncio.to_thread(apply_changes, _folder(target), changes)

    async def release(self, *, run: str) -> None:
        """Remove the run's working folder; trees stay in the store. A repeat does nothing."""
        place = self._place(run)
        async with self._locked(place):
            await self._discard(place)

    async def runs(self) -> dict[str, datetime]:
        return await asyncio.to_thread(_noted, self._home)

    async def remove_unfinished(self) -> None:
        """Remove folders that killed processes left half made, and locks of removed folders."""
        for lock in await asyncio.to_thread(lambda: sorted(self._home.glob(".*.lock"))):
            place = self._home / lock.name.removeprefix(".").removesuffix(".lock")
            try:
                await self._discard_unfinished(place)
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                _log.warning("unfinished_folder_not_removed", folder=str(place), why=why)

    async def _discard_unfinished(self, place: Path) -> None:
        if (place / NOTE).exists() or (descriptor := try_lock(lock_of(place))) is None:
            return
        try:
            # Looked at again under the lock: a preparation may have ended since.
            if not (place / NOTE).exists():
                await self._discard(place)
        finally:
            unlock(descriptor, place)

    async def _make(self, run: str, source: str | None) -> WorkingFolder:
        place = self._place(run)
        await self._discard(place)
        root = _new_root(place)
        kind: Kind = "scratch"
        if source is not None:
            # Written before a worktree is registered in the user's repository, so that a retry
            # after a crash can remove it again.
            (place / "source").write_text(source, encoding="utf-8")
            kind = await self._copy(source, root)
        tree, missing = await self._snapshots.take(root)
        _require_all(source, missing)
        base = await store_tree(self._blobs, tree)
        note = WorkingFolder(run=run, kind=kind, source=source, root=root, base=base)
        self._keep(note)
        return note

    def _keep(self, note: WorkingFolder) -> None:
        place = self._place(note.run)
        # Written aside and renamed, so that a note is never half.
        draft = place / "note.new"
        draft.write_text(note.model_dump_json(), encoding="utf-8")
        draft.replace(place / NOTE)

    async def _copy(self, source: str, root: str) -> Kind:
        listed = await look(source)
        _require_all(source, left_out((), listed.too_deep, listed.closed))
        paths = listed.paths
        repository = await asyncio.to_thread(find_repository, source)
        if repository is not None and await working_copies.add_worktree(repository, root):
            await asyncio.to_thread(working_copies.copy_files, source, root, paths)
            return "worktree"
        await asyncio.to_thread(working_copies.require_size, source, paths)
        # A worktree that was registered only in part may have left the folder.
        await asyncio.to_thread(remove_folder, root)
        os.mkdir(root, 0o700)
        await asyncio.to_thread(working_copies.copy_files, source, root, paths)
        return "copy"

    async def _discard(self, place: Path) -> None:
        if not place.is_dir():
            return
        root = str(place / "work")
        origin = place / "source"
        # Before the folder goes: without its note, nobody finds the registration again.
        if origin.is_file():
            await working_copies.remove_worktree(origin.read_text(encoding="utf-8"), root)
        self._snapshots.forget(root)
        await asyncio.to_thread(remove_folder, place)

    async def _content(self, leaf: Leaf | None) -> tuple[Mode, bytes] | None:
        return None if leaf is None else (leaf.mode, await self._blobs.get(leaf.blob))

    def _place(self, run: str) -> Path:
        # Run ids may be long and have any characters; the hash keeps two of them apart.
        readable = re.sub(r"[^A-Za-z0-9-]+", "-", run)[:60]
        return self._home / f"{readable}-{hashlib.sha256(run.encode()).hexdigest()[:12]}"

    def _note(self, run: str) -> WorkingFolder | None:
        return _read(self._place(run) / NOTE)

    def _required(self, run: str) -> WorkingFolder:
        note = self._note(run)
        if note is None:
            raise NotFound(
                f"The run {run} has no working folder here.",
                cure="Prepare it first; runs without write access have none of their own.",
            )
        return note

    @asynccontextmanager
    async def _locked(self, place: Path) -> AsyncGenerator[None]:
        """A lock for a folder, over all processes of this host."""
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Polled, because a thread that waits for the lock could not be cancelled.
        while (descriptor := try_lock(lock_of(place))) is None:  # noqa: ASYNC110
            await asyncio.sleep(LOCK_POLL_S)
        try:
            yield
        finally:
            unlock(descriptor, place)


def host_id(home: Path) -> str:
    """The id of the host that has working folders below `home`; created at the first call.

    Hosts that share the folder over a network count as one, since each finds the other's work.

    Raises:
        StoreAway: the folder cannot be written, or its disk is full.
    """
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        return write_once(home / HOST_FILE, secrets.token_hex(HOST_BYTES))
    except OSError as error:
        raise StoreAway(
            f"The folder of working copies {home} cannot be written: {error.strerror}.",
            cure="Make room there, or give the worker's user the right to write.",
        ) from error


def _read(note: Path) -> WorkingFolder | None:
    try:
        return WorkingFolder.model_validate_json(note.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValidationError):
        return None


def _noted(home: Path) -> dict[str, datetime]:
    """When each run's folder below this one was made, or was given another base."""
    found: dict[str, datetime] = {}
    for place in sorted(home.glob(f"*/{NOTE}")):
        if (note := _read(place)) is not None:
            with suppress(FileNotFoundError):  # it was removed a moment ago
                found[note.run] = datetime.fromtimestamp(place.stat().st_mtime, UTC)
    return found


def _require_all(source: str | None, missing: Sequence[str]) -> None:
    """Refuse a folder of a user that a run could not work on as a whole."""
    if missing:
        raise InvalidInput(
            f"The workspace {source} holds files that cannot be stored: {', '.join(missing)}.",
            cure="Keep such files out of the workspace, or let git ignore them.",
        )


def _new_root(place: Path) -> str:
    place.mkdir(mode=0o700)
    root = place / "work"
    root.mkdir(mode=0o700)
    return str(root)


def _folder(path: str) -> str:
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        raise InvalidInput(
            f"The workspace {path} is not a folder.", cure="Name a folder that exists."
        )
    return real
