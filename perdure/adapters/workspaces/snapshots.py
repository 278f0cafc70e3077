"""Storing the files of a folder as a tree, and making a folder equal to one again."""

import asyncio
import os
import stat
import time
from collections.abc import Iterable, Sequence

from perdure.adapters.files.paths import shown
from perdure.adapters.files.rooted_files import Parts, RootedDirectory
from perdure.adapters.workspaces.file_selection import list_files
from perdure.adapters.workspaces.trees import EXECUTABLE, LINK, Leaf, Mode, Tree
from perdure.domain.foundation.errors import InvalidInput, ToolFailure
from perdure.domain.ports import BlobStore

TREE_CAP = 2 * 1024**3
FILE_CAP = 200 * 1024**2
_BATCH = 64
# A file changed within this time may change again without a new time stamp: never trusted.
_SETTLED_NS = 2_000_000_000

Signature = tuple[int, int, int, int, int]


class Snapshots:
    """Takes trees of folders; remembers what unchanged files hold, per folder."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._known: dict[str, dict[str, tuple[Signature, Leaf]]] = {}

    async def take(self, root: str, *, also: Iterable[str] = ()) -> dict[str, Leaf]:
        """The tree of a folder as it is now; contents go into the blob store."""
        paths = await list_files(root, also=also)
        known = self._known.setdefault(root, {})
        tree: dict[str, Leaf] = {}
        total = 0
        for start in range(0, len(paths), _BATCH):
            batch = paths[start : start + _BATCH]
            for path, leaf, size in await self._batch(root, batch, known):
                tree[path] = leaf
                total += size
            if total > TREE_CAP:
                raise InvalidInput(
                    f"The files of {root} are larger than {TREE_CAP:,} bytes together.",
                    cure="Point `workspace` at a smaller folder, or ignore what is generated.",
                )
        self._known[root] = {path: entry for path, entry in known.items() if path in tree}
        return tree

    def forget(self, root: str) -> None:
        """Drop what is remembered of a folder that is gone."""
        self._known.pop(root, None)

    async def _batch(
        self, root: str, paths: Sequence[str], known: dict[str, tuple[Signature, Leaf]]
    ) -> list[tuple[str, Leaf, int]]:
        unchanged, read = await asyncio.to_thread(_read_batch, root, paths, known)
        addresses = await asyncio.gather(*(self._blobs.put(data) for _, _, data, _ in read))
        found = list(unchanged)
        for (path, mode, data, signature), address in zip(read, addresses, strict=True):
            leaf = Leaf(blob=address, mode=mode)
            if signature is not None:
                known[path] = (signature, leaf)
            found.append((path, leaf, len(data)))
        return found


async def restore(blobs: BlobStore, *, root: str, tree: Tree, present: Sequence[str]) -> None:
    """Make the files of a folder those of a tree: others of `present` are removed."""
    await asyncio.to_thread(_remove_others, root, tree, present)
    for path, leaf in sorted(tree.items()):
        data = await blobs.get(leaf.blob)
        await asyncio.to_thread(_restore_one, root, path, leaf, data)


def leaf_mode(mode: int) -> Mode:
    """Git's word for a file's mode."""
    if stat.S_ISLNK(mode):
        return LINK
    return EXECUTABLE if mode & 0o111 else "100644"


def content(files: RootedDirectory, parts: Parts) -> tuple[Mode, bytes] | None:
    """What is at a path as a tree sees it, or None for nothing (or a folder)."""
    entry = files.entry(parts)
    if entry is None or entry.kind not in {"file", "link"}:
        return None
    mode = leaf_mode(entry.status.st_mode)
    try:
        if mode == LINK:
            return mode, os.fsencode(files.link_target(parts))
        return mode, files.read(parts, cap=FILE_CAP)
    except ToolFailure as failure:
        if failure.reason == "too_large":
            raise InvalidInput(
                f"{shown('/'.join(parts))} is larger than {FILE_CAP:,} bytes.",
                cure="Keep such files out of the workspace, or let git ignore them.",
            ) from failure
        if failure.reason == "not_found":  # it went away meanwhile
            return None
        raise


def _read_batch(
    root: str, paths: Sequence[str], known: dict[str, tuple[Signature, Leaf]]
) -> tuple[list[tuple[str, Leaf, int]], list[tuple[str, Mode, bytes, Signature | None]]]:
    unchanged: list[tuple[str, Leaf, int]] = []
    read: list[tuple[str, Mode, bytes, Signature | None]] = []
    now = time.time_ns()
    with RootedDirectory(root) as files:
        for path in paths:
            parts = tuple(path.split("/"))
            entry = files.entry(parts)
            if entry is None:
                continue
            signature = _signature(entry.status)
            remembered = known.get(path)
            if remembered is not None and remembered[0] == signature:
                unchanged.append((path, remembered[1], entry.status.st_size))
            elif (found := content(files, parts)) is not None:
                settled = now - entry.status.st_ctime_ns > _SETTLED_NS
                read.append((path, *found, signature if settled else None))
    return unchanged, read


def _signature(status: os.stat_result) -> Signature:
    return (
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_mode,
    )


def _remove_others(root: str, tree: Tree, present: Sequence[str]) -> None:
    with RootedDirectory(root) as files:
        for path in present:
            if path not in tree:
                parts = tuple(path.split("/"))
                files.remove(parts)
                files.prune(parts[:-1])


def _restore_one(root: str, path: str, leaf: Leaf, data: bytes) -> None:
    parts = tuple(path.split("/"))
    with RootedDirectory(root) as files:
        if content(files, parts) == (leaf.mode, data):
            return
        _clear_way(files, parts)
        put(files, parts, leaf=leaf, data=data)


def put(files: RootedDirectory, parts: Parts, *, leaf: Leaf, data: bytes) -> None:
    """Write one leaf, whole or not at all."""
    with files.locked(parts[:-1], create=True) as folder:
        if leaf.mode == LINK:
            files.replace_link(folder, parts[-1], os.fsdecode(data))
        else:
            files.replace(folder, parts[-1], data, mode=leaf.permissions)


def _clear_way(files: RootedDirectory, parts: Parts) -> None:
    """Remove what stands where a folder is needed, and a folder where the file goes."""
    for depth in range(1, len(parts)):
        entry = files.entry(parts[:depth])
        if entry is not None and entry.kind != "folder":
            files.remove(parts[:depth])
    last = files.entry(parts)
    if last is not None and last.kind in {"folder", "other"}:
        files.remove(parts)
