"""Access to the files below one opened folder, step by step by descriptor, following no link.

A path is walked component by component with O_NOFOLLOW. So neither a link, nor a folder that is
swapped for a link between check and use, leads outside. No path is resolved as a string.
"""

import fcntl
import os
import secrets
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal, Self

from perdure.adapters.files.paths import shown, why_protected
from perdure.adapters.files.system_errors import DENIED, translate_file_errors
from perdure.domain.foundation.errors import StoreAway, ToolFailure

READ_CAP = 10 * 1024 * 1024
WRITE_CAP = 5 * 1024 * 1024
TEMPORARY_PREFIX = ".perdure-"
# Opening a folder costs a call for each level, so a program could make a tree that takes hours.
MOST_LEVELS = 200

Kind = Literal["file", "folder", "link", "other"]
Parts = tuple[str, ...]

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a pipe must not wait for its other end.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
# Names a file or folder without opening it; only Linux has this.
_HANDLE: int = getattr(os, "O_PATH", 0)
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """One name in a folder, as `lstat` sees it."""

    name: str
    kind: Kind
    status: os.stat_result


class RootedDirectory:
    """Access to the files below a folder; use as a context manager.

    Args:
        root: absolute path of the folder, which is opened once; all else is relative to it.
        guarded: whether a model uses it: protected files are then refused (`protected`).
    """

    def __init__(self, root: str | os.PathLike[str], *, guarded: bool = False) -> None:
        self._guarded = guarded
        # Without O_NOFOLLOW: the root is named by a person, and may be a link.
        try:
            self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolFailure(
                f"The workspace cannot be opened ({error.strerror}).", reason="no_workspace"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor of the folder."""
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    @contextmanager
    def folder(self, parts: Parts, *, create: bool = False) -> Generator[int]:
        """A descriptor of a folder below the root, valid inside the block."""
        _require_names(parts)
        current = os.dup(self._root)
        try:
            for name in parts:
                if create:
                    with suppress(FileExistsError), translate_file_errors(parts):
                        os.mkdir(name, dir_fd=current)
                with translate_file_errors(parts):
                    following = os.open(name, _FOLDER_FLAGS, dir_fd=current)
                os.close(current)
                current = following
            yield current
        finally:
            os.close(current)

    @contextmanager
    def file(self, parts: Parts) -> Generator[int]:
        """A descriptor of a regular file, for reading, valid inside the block."""
        if not parts:
            raise ToolFailure(". is a folder; name a file in it.", reason="not_a_file")
        _require_names(parts)
        if self._guarded and (why := why_protected(parts, use="read")):
            raise ToolFailure(f"{shown('/'.join(parts))} is {why}.", reason="protected")
        with self.folder(parts[:-1]) as parent:
            with translate_file_errors(parts):
                descriptor = os.open(parts[-1], _FILE_FLAGS, dir_fd=parent)
            try:
                _require_regular(parts, os.fstat(descriptor))  # of what was opened, not of its name
                yield descriptor
            finally:
                os.close(descriptor)

    def status(self, parts: Parts) -> os.stat_result | None:
        """`lstat` of a path; None if it does not exist."""
        try:
            if not parts:
                return os.fstat(self._root)
            _require_names(parts)
            with self.folder(parts[:-1]) as parent, translate_file_errors(parts):
                return os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
        except ToolFailure as failure:
            if failure.reason in {"not_found", "not_a_folder", "no_name"}:
                return None
            raise

    def replace_link(self, parent: int, name: str, target: str) -> None:
        """Replace a file by a symbolic link in one step."""
        _require_names((name,))
        temporary = temporary_name()
        os.symlink(target, temporary, dir_fd=parent)
        try:
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=parent)
            raise

    def entry(self, parts: Parts) -> FolderEntry | None:
        """The entry at a path, or None; below a link or a file there is nothing."""
        try:
            status = self.status(parts)
        except ToolFailure as failure:
            if failure.reason == "link":
                return None
            raise
        if status is None:
            return None
        return FolderEntry(
            name=parts[-1] if parts else ".", kind=kind_of(status.st_mode), status=status
        )

    def read(self, parts: Parts, *, cap: int = READ_CAP) -> bytes:
        """The content of a regular file of at most `cap` bytes."""
        with self.file(parts) as descriptor:
            data = read_all(descriptor, cap=cap + 1)
        if len(data) > cap:
            raise ToolFailure(
                f"{shown('/'.join(parts))} is larger than {cap:,} bytes. "
                "Look for what you need with fs.search, or work on a smaller file.",
                reason="too_large",
            )
        return data

    def link_target(self, parts: Parts) -> str:
        """The text of a symbolic link, which is not followed."""
        _require_names(parts)
        with self.folder(parts[:-1]) as parent, translate_file_errors(parts):
            return os.readlink(parts[-1], dir_fd=parent)

    def entries(self, parts: Parts) -> list[FolderEntry]:
        """The entries of a folder, sorted by name."""
        with self.folder(parts) as descriptor, translate_file_errors(parts):
            found: list[FolderEntry] = []
            for name in sorted(os.listdir(descriptor)):
                with suppress(FileNotFoundError):
                    status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    found.append(
                        FolderEntry(name=name, kind=kind_of(status.st_mode), status=status)
                    )
            return found

    def walk(
        self,
        parts: Parts = (),
        *,
        skip: frozenset[str] = frozenset(),
        levels: int = MOST_LEVELS,
        closed: list[Parts] | None = None,
    ) -> Iterator[tuple[Parts, FolderEntry]]:
        """All entries below a folder in a stable order; folders named in `skip` are left out.

        A folder whose path has `levels` names is returned, but what is in it is not. Nor is what
        is in a folder that may not be listed; `closed` takes the names of such folders.
        """
        # Without recursion, which would fail in folders that a program made deep enough.
        waiting = [((*parts, entry.name), entry) for entry in reversed(self.entries(parts))]
        while waiting:
            path, entry = waiting.pop()
            if entry.kind == "folder" and entry.name in skip:
                continue
            yield path, entry
            if entry.kind == "folder" and len(path) < levels:
                try:
                    inner = reversed(self.entries(path))
                except ToolFailure as failure:
                    if closed is not None and failure.reason == DENIED:
                        closed.append(path)
                    continue  # or swapped just now, perhaps for a link
                waiting += [((*path, entry.name), entry) for entry in inner]

    @contextmanager
    def locked(self, parts: Parts, *, create: bool = False) -> Generator[int]:
        """A folder's descriptor with an exclusive lock, for which parallel writers wait."""
        with self.folder(parts, create=create) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                yield descriptor
            finally:
                # Closing is not enough: without `parts` this duplicates the root's descriptor.
                fcntl.flock(descriptor, fcntl.LOCK_UN)

    def replace(self, parent: int, name: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file completely or not at all: a new file, then a rename in the same folder."""
        _require_names((name,))
        temporary = stage(parent, data, mode=mode)
        try:
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=parent)
            raise

    def remove(self, parts: Parts) -> None:
        """Remove what is at a path: a file, a link, or a folder with its content."""
        entry = self.entry(parts)
        if entry is None:
            return
        if entry.kind == "folder":
            self.remove_tree(parts)
        else:
            with self.folder(parts[:-1]) as parent:
                os.unlink(parts[-1], dir_fd=parent)

    def prune(self, parts: Parts) -> None:
        """Remove empty folders from here upwards, but never the root."""
        while parts:
            try:
                with self.folder(parts[:-1]) as parent:
                    os.rmdir(parts[-1], dir_fd=parent)
            except (OSError, ToolFailure, StoreAway):
                return  # it is not empty, so neither is any above it
            parts = parts[:-1]

    def remove_tree(self, parts: Parts) -> None:
        """Remove a folder below the root and everything in it, without following links."""
        if parts:
            # Others' folder can be one that may be emptied all the same.
            with (
                self.folder(parts[:-1]) as parent,
                translate_file_errors(parts),
                suppress(PermissionError),
            ):
                _reopen(parts[-1], parent)
        with self.folder(parts) as top, translate_file_errors(parts):
            waiting = _emptied(top, into=top)
            while waiting:
                name = waiting.pop()
                inner = os.open(name, _FOLDER_FLAGS, dir_fd=top)
                try:
                    waiting += _emptied(inner, into=top)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=top)
        if parts:
            with self.folder(parts[:-1]) as parent:
                os.rmdir(parts[-1], dir_fd=parent)


def remove_folder(path: str | os.PathLike[str]) -> None:
    """Remove a folder with everything in it; it is no error if it is gone already.

    Unlike `shutil.rmtree` this also removes folders that are thousands of levels deep.

    Raises:
        ToolFailure: it may not be removed.
    """
    above, name = os.path.split(os.path.abspath(path))
    with RootedDirectory(above) as files:
        files.remove((name,))


def _emptied(folder: int, *, into: int) -> list[str]:
    """Remove the files of a folder and move its folders into another; returns their names there.

    So a deep tree becomes flat, and removing it takes neither recursion nor long paths.
    """
    moved: list[str] = []
    for name in os.listdir(folder):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if kind_of(status.st_mode) != "folder":
            os.unlink(name, dir_fd=folder)
            continue
        _reopen(name, folder)
        moved.append(temporary_name())
        os.rename(name, moved[-1], src_dir_fd=folder, dst_dir_fd=into)
    return moved


def _reopen(name: str, parent: int) -> None:
    """Give its owner all rights on a folder: a closed one can neither be moved nor emptied."""
    if not _HANDLE:
        os.chmod(name, 0o700, dir_fd=parent)
        return
    # By a handle, which also a folder without any rights gives; `chmod` would follow a link.
    handle = os.open(name, _FOLDER_FLAGS | _HANDLE, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)
    finally:
        os.close(handle)


def stage(parent: int, data: bytes, *, mode: int, masked: bool = False) -> str:
    """Write a new file under a temporary name into an opened folder and return the name.

    `masked`: the file gets the mode without what the user's umask takes away.
    """
    name = temporary_name()
    descriptor = os.open(name, _NEW_FLAGS, mode & 0o777 if masked else 0o600, dir_fd=parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if not masked:
                os.fchmod(file.fileno(), mode & 0o777)  # `open` would apply the umask
            # Before the rename, or a crash could leave an empty file under the final name.
            os.fsync(file.fileno())
    except OSError:
        os.unlink(name, dir_fd=parent)
        raise
    return name


def temporary_name() -> str:
    """A name that no file has; files with the prefix are never part of a tree."""
    return f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}.tmp"


def read_all(descriptor: int, *, cap: int) -> bytes:
    """Up to `cap` bytes from a descriptor."""
    chunks: list[bytes] = []
    left = cap
    while left > 0 and (chunk := os.read(descriptor, min(left, 1 << 20))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def kind_of(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def _require_names(parts: Parts) -> None:
    """Refuse names that the kernel would resolve: `..`, or one with a slash inside."""
    for name in parts:
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            raise ToolFailure(
                f"{shown('/'.join(parts))} holds {name!r}, which is no name of a file or folder. "
                "Paths stay inside the workspace.",
                reason="path",
            )


def _require_regular(parts: Parts, status: os.stat_result) -> None:
    path = shown("/".join(parts))
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailure(f"{path} is a folder. Look into it with fs.list.", reason="not_a_file")
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailure(
            f"{path} is not a regular file (a pipe, socket or device); tools leave it alone.",
            reason="not_a_file",
        )
