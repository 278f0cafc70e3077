"""Stores the files of a folder as a tree in the blob store, and restores them."""

import asyncio
import json
import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from perdure.adapters.files.paths import (
    VERSION_CONTROL,
    is_safe_tree_path,
    is_version_control,
    shown,
)
from perdure.adapters.files.rooted_files import (
    MOST_LEVELS,
    TEMPORARY_PREFIX,
    Parts,
    RootedDirectory,
)
from perdure.adapters.files.system_errors import DENIED
from perdure.adapters.git.run_git import run_git
from perdure.adapters.git.safe_repository import find_repository, read_settings, shadow
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput, StoreError, ToolFailure
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.ports import BlobStore

LIST_CAP = 64 * 1024 * 1024
TREE_CAP = 2 * 1024**3
FILE_CAP = 200 * 1024**2
_BATCH = 64  # so many files are in memory at once
_NAMED = 20
# A file may change twice within one tick of the file system's clock. So a file that has changed
# within this time is read again at the next snapshot.
_SETTLED_NS = 2_000_000_000
# What git says of a folder that it leaves out.
_UNLISTED = re.compile(r"could not open directory '(.*)/': Permission denied")
_CACHES = frozenset({"__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache"})


async def list_files(root: str, *, also: Iterable[str] = ()) -> list[str]:
    """The sorted paths of the files and links that belong to the work, as `look` finds them."""
    return (await look(root, also=also)).paths


@dataclass(frozen=True, slots=True)
class Listed:
    """The files that belong to the work, and those (or their folders) that cannot be stored.

    `closed` are known files that may not be looked at, `unlisted` folders that may not be.
    """

    paths: list[str]
    too_deep: list[str] = field(default_factory=list[str])
    closed: set[str] = field(default_factory=set[str])
    unlisted: set[str] = field(default_factory=set[str])


async def look(root: str, *, also: Iterable[str] = ()) -> Listed:
    """Find the files and links that belong to the work.

    Args:
        root: the folder; if it is the top of a repository, ignored files are left out.
        also: further paths, even if they are ignored now: a run may have changed the ignore rules,
            and a file must not look deleted because of that.
    """
    listed = Listed([])
    repository = await asyncio.to_thread(find_repository, root)
    if repository is None:
        names: set[str] | None = None
    else:
        with shadow(repository, await read_settings(repository)) as shown:
            said = await run_git(
                ["ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                cwd=root,
                extra=shown.environment,
                view=shown.view,
                cap=LIST_CAP,
            )
        if said.code != 0:
            raise StoreError(
                f"The files of {root} cannot be listed: {said.stderr.strip()[:200]}.",
                cure="Check the repository with `git status`.",
            )
        names = {os.fsdecode(name) for name in said.stdout.split(b"\0") if name}
        listed.unlisted.update(_UNLISTED.findall(said.stderr))
    with RootedDirectory(root) as files:
        present = (
            _walked(files, (), VERSION_CONTROL | _CACHES, listed)
            if names is None
            else _existing(files, names, listed, folders=True)
        )
        found = {path for path in present if not is_version_control(path)}
        found.update(_existing(files, also, listed, folders=False))
    for path in sorted(path for path in found if is_safe_tree_path(path)):
        is_deep = path.count("/") + 1 >= MOST_LEVELS
        (listed.too_deep if is_deep else listed.paths).append(path)
    return listed


def _existing(
    files: RootedDirectory, names: Iterable[str], listed: Listed, *, folders: bool
) -> Iterator[str]:
    """The names that are files or links; of a folder (a nested repository) all its files."""
    for name in names:
        parts = tuple(part for part in name.split("/") if part)
        if not is_safe_tree_path("/".join(parts)):
            continue
        try:
            entry = files.entry(parts)
        except ToolFailure as failure:
            if failure.reason != DENIED:
                raise
            listed.closed.add("/".join(parts))
            continue
        if entry is None:
            continue
        if entry.kind in {"file", "link"}:
            yield "/".join(parts)
        elif entry.kind == "folder" and folders:
            yield from _walked(files, parts, VERSION_CONTROL, listed)


def _walked(
    files: RootedDirectory, top: Parts, skip: frozenset[str], listed: Listed
) -> Iterator[str]:
    unlisted: list[Parts] = []
    for parts, entry in files.walk(top, skip=skip, closed=unlisted):
        # Of a folder that is too deep to be looked into, its name stands for what is in it.
        shut = entry.kind == "folder" and len(parts) >= MOST_LEVELS
        kept = entry.kind in {"file", "link"} and not entry.name.startswith(TEMPORARY_PREFIX)
        if kept or shut:
            yield "/".join(parts)
    listed.unlisted.update("/".join(parts) for parts in unlisted)


Mode = Literal["100644", "100755", "120000"]
LINK: Mode = "120000"
EXECUTABLE: Mode = "100755"


class Leaf(FrozenModel):
    """One file of a tree: the address of its content, and its mode in git."""

    blob: str
    mode: Mode = "100644"

    @property
    def permissions(self) -> int:
        """The permissions with which the file is written."""
        return 0o755 if self.mode == EXECUTABLE else 0o644


Tree = Mapping[str, Leaf]

_TREE: TypeAdapter[dict[str, Leaf]] = TypeAdapter(dict[str, Leaf])


async def store_tree(blobs: BlobStore, tree: Tree) -> BlobRef:
    """Store the manifest; equal trees have equal references."""
    plain = {path: {"blob": leaf.blob, "mode": leaf.mode} for path, leaf in sorted(tree.items())}
    # File names that are not UTF-8 hold lone surrogates, which JSON can only carry as escapes.
    return await blobs.put_text(json.dumps(plain, ensure_ascii=True, separators=(",", ":")))


async def load_tree(blobs: BlobStore, address: str) -> dict[str, Leaf]:
    """The manifest of a stored tree; raises `StoreError` if the blob is none."""
    text = await blobs.get_text(address)
    try:
        tree = _TREE.validate_python(json.loads(text))
    except (ValidationError, ValueError) as error:
        raise StoreError(
            f"{address} is not a stored tree.", cure="Give the tree id of an iteration record."
        ) from error
    unsafe = [path for path in tree if not is_safe_tree_path(path)]
    if unsafe:
        raise StoreError(
            f"The tree {address} holds the path {unsafe[0]!r}, which is not allowed.",
            cure="Go on from another iteration; the store may have been tampered with.",
        )
    return tree


def changed_paths(base: Tree, tree: Tree) -> list[str]:
    """The sorted paths whose files differ between two trees."""
    return sorted(path for path in {*base, *tree} if base.get(path) != tree.get(path))


NO_FILES: Tree = MappingProxyType({})
Signature = tuple[int, int, int, int, int]


class Snapshots:
    """Takes snapshots of folders; remembers the content of unchanged files, per folder."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._known: dict[str, dict[str, tuple[Signature, Leaf]]] = {}

    async def take(
        self, root: str, *, also: Tree = NO_FILES
    ) -> tuple[dict[str, Leaf], tuple[str, ...]]:
        """The current tree of a folder, and what is left out of it, each with why.

        Contents are put into the blob store. What has become too large, or may not be read, stays
        as it is in `also`, since a file must not look deleted because of that.
        """
        listed = await look(root, also=also)
        large = await asyncio.to_thread(_large, root, listed.paths)
        paths = [path for path in listed.paths if path not in large]
        closed = set(listed.closed)
        known = self._known.setdefault(root, {})
        tree: dict[str, Leaf] = {}
        total = 0
        for start in range(0, len(paths), _BATCH):
            batch = paths[start : start + _BATCH]
            for path, leaf, size in await self._batch(root, batch, known, closed):
                tree[path] = leaf
                total += size
            if total > TREE_CAP:
                raise InvalidInput(
                    f"The files of {root} are larger than {TREE_CAP:,} bytes together.",
                    cure="Point `workspace` at a smaller folder, or ignore what is generated.",
                )
        self._known[root] = {path: entry for path, entry in known.items() if path in tree}
        tree.update((path, also[path]) for path in large | closed if path in also)
        return tree, left_out(large, listed.too_deep, closed | listed.unlisted)

    def forget(self, root: str) -> None:
        """Drop what is remembered of a folder that is gone."""
        self._known.pop(root, None)

    async def _batch(
        self,
        root: str,
        paths: Sequence[str],
        known: dict[str, tuple[Signature, Leaf]],
        closed: set[str],
    ) -> list[tuple[str, Leaf, int]]:
        unchanged, read = await asyncio.to_thread(_read_batch, root, paths, known, closed)
        addresses = await asyncio.gather(*(self._blobs.put(data) for _, _, data, _ in read))
        found = list(unchanged)
        for (path, mode, data, signature), address in zip(read, addresses, strict=True):
            leaf = Leaf(blob=address, mode=mode)
            if signature is not None:
                known[path] = (signature, leaf)
            found.append((path, leaf, len(data)))
        return found


async def restore(blobs: BlobStore, *, root: str, tree: Tree, present: Sequence[str]) -> None:
    """Write a tree into a folder; files of `present` that are not in it are removed."""
    # Removals first, since a file may be where the tree has a folder, and the reverse.
    await asyncio.to_thread(_remove_others, root, tree, present)
    for path, leaf in sorted(tree.items()):
        data = await blobs.get(leaf.blob)
        await asyncio.to_thread(_restore_one, root, path, leaf, data)


def left_out(large: Iterable[str], deep: Iterable[str], closed: Collection[str]) -> tuple[str, ...]:
    """What a snapshot cannot have, in words; of many files the first are named."""
    named = [f"{shown(path)} (larger than {FILE_CAP:,} bytes)" for path in sorted(large)]
    named += [f"{shown(path)} ({MOST_LEVELS} or more levels deep)" for path in deep]
    # A closed folder stands for what is in it.
    named += [
        f"{shown(path)} (may not be read)" for path in sorted(closed) if not _below(path, closed)
    ]
    more = len(named) - _NAMED
    return (*named[:_NAMED], *([f"and {more:,} more"] if more > 0 else []))


def _below(path: str, folders: Collection[str]) -> bool:
    parts = path.split("/")
    return any("/".join(parts[:depth]) in folders for depth in range(1, len(parts)))


def _large(root: str, paths: Iterable[str]) -> set[str]:
    with RootedDirectory(root) as files:
        return {path for path in paths if _too_large(files, tuple(path.split("/")))}


def _is_out_of_reach(files: RootedDirectory, parts: Parts) -> bool:
    """Whether no snapshot can have this file, which then stays as it is."""
    return _closed(files, parts) or _too_large(files, parts)


def _closed(files: RootedDirectory, parts: Parts) -> bool:
    try:
        with files.file(parts):
            return False
    except ToolFailure as failure:
        return failure.reason == DENIED


def _too_large(files: RootedDirectory, parts: Parts) -> bool:
    entry = files.entry(parts)
    return entry is not None and entry.kind == "file" and entry.status.st_size > FILE_CAP


def leaf_mode(mode: int) -> Mode:
    """The mode of a file in git."""
    if stat.S_ISLNK(mode):
        return LINK
    return EXECUTABLE if mode & 0o111 else "100644"


def content(files: RootedDirectory, parts: Parts) -> tuple[Mode, bytes] | None:
    """Mode and content of the file or link at a path; None for nothing or a folder."""
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
        if failure.reason == "not_found":  # it was removed just now
            return None
        raise


def _read_batch(
    root: str,
    paths: Sequence[str],
    known: dict[str, tuple[Signature, Leaf]],
    closed: set[str],
) -> tuple[list[tuple[str, Leaf, int]], list[tuple[str, Mode, bytes, Signature | None]]]:
    unchanged: list[tuple[str, Leaf, int]] = []
    read: list[tuple[str, Mode, bytes, Signature | None]] = []
    now = time.time_ns()
    with RootedDirectory(root) as files:
        for path in paths:
            parts = tuple(path.split("/"))
            # Before the content: what changes between the two has another signature the next time.
            entry = files.entry(parts)
            if entry is None:
                continue
            signature = _signature(entry.status)
            remembered = known.get(path)
            if remembered is not None and remembered[0] == signature:
                unchanged.append((path, remembered[1], entry.status.st_size))
            elif _closed(files, parts):
                closed.add(path)
            elif (found := content(files, parts)) is not None:
                settled = now - entry.status.st_ctime_ns > _SETTLED_NS
                read.append((path, *found, signature if settled else None))
    return unchanged, read


def _signature(status: os.stat_result) -> Signature:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode)


def _remove_others(root: str, tree: Tree, present: Sequence[str]) -> None:
    with RootedDirectory(root) as files:
        for path in present:
            parts = tuple(path.split("/"))
            # No tree has a file that is out of reach, so it stays, like one that is ignored.
            if path not in tree and not _is_out_of_reach(files, parts):
                files.remove(parts)
                files.prune(parts[:-1])


def _restore_one(root: str, path: str, leaf: Leaf, data: bytes) -> None:
    parts = tuple(path.split("/"))
    with RootedDirectory(root) as files:
        if _is_out_of_reach(files, parts) or content(files, parts) == (leaf.mode, data):
            return
        # Remove files where the path needs folders, and a folder where the file goes.
        for depth in range(1, len(parts)):
            entry = files.entry(parts[:depth])
            if entry is not None and entry.kind != "folder":
                files.remove(parts[:depth])
        last = files.entry(parts)
        if last is not None and last.kind in {"folder", "other"}:
            files.remove(parts)
        put(files, parts, leaf=leaf, data=data)


def put(files: RootedDirectory, parts: Parts, *, leaf: Leaf, data: bytes) -> None:
    """Write one file or link, completely or not at all."""
    with files.locked(parts[:-1], create=True) as folder:
        if leaf.mode == LINK:
            files.replace_link(folder, parts[-1], os.fsdecode(data))
        else:
            files.replace(folder, parts[-1], data, mode=leaf.permissions)
