"""Blobs as files. A file is written under another name, synced and renamed, so none is partial.

Writers and renewals share a lock on the folder; a deletion takes the lock exclusively. So a file
that was just renewed cannot be deleted between the check of its age and the deletion.
"""

import asyncio
import errno
import fcntl
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from perdure.adapters.stores.encryption import PLAIN_BLOB, SEALED_BLOB, is_address, kind
from perdure.domain.foundation.errors import StoreAway

# A younger file may be one that another process is writing.
STALE_SECONDS = 3600
SEALED_SUFFIX = ".sealed"
UNFINISHED = "unfinished"
_FOLDER = re.compile("[0-9a-f]{2}")

_CURES = {
    errno.ENOSPC: "Free disk space (perdure gc drops what no run needs) and try again.",
    errno.EDQUOT: "Free space within the quota (perdure gc drops what no run needs) and try again.",
    errno.EFBIG: "Raise the limit on file size (ulimit -f), or store less at once.",
    errno.EROFS: "Mount the disk writable, or choose another home folder.",
    errno.EACCES: "Give the user that runs Perdure the rights on the folder.",
    errno.EPERM: "Give the user that runs Perdure the rights on the folder.",
    errno.EMFILE: "Raise the limit on open files (ulimit -n), or run fewer steps at once.",
}


class FileShelf:
    """Files `ab/cdef…` below one folder; several processes of one host may share it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self) -> None:
        """Make the folder, and delete what killed writers left behind (blocking)."""
        with _translated(self._root, "be opened"):
            unfinished = self._root / UNFINISHED
            # One by one: `parents` would make the upper one with the usual rights.
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            unfinished.mkdir(mode=0o700, exist_ok=True)
            for file in unfinished.iterdir():
                _drop_stale(file)

    async def write(self, address: str, stored: bytes) -> None:
        await asyncio.to_thread(self._write, address, stored)

    async def keep(self, address: str, size: int, sealed: Callable[[], bytes]) -> None:
        await asyncio.to_thread(self._keep, address, size, sealed)

    async def renew(self, address: str, size: int) -> bool:
        return await asyncio.to_thread(self._renew, address, size)

    async def read(self, address: str) -> bytes | None:
        return await asyncio.to_thread(self._read, address)

    async def exists(self, address: str) -> bool:
        return await asyncio.to_thread(self._exists, address)

    async def delete(self, addresses: Sequence[str], *, written_before: datetime) -> list[int]:
        before = written_before.timestamp()
        sizes = [await asyncio.to_thread(self._delete, name, before) for name in addresses]
        return [size for size in sizes if size is not None]

    async def addresses(self) -> AsyncIterator[tuple[str, int, datetime]]:
        for folder in await asyncio.to_thread(self._folders):
            for found in await asyncio.to_thread(_list_folder, folder):
                yield found

    def _path(self, address: str) -> Path:
        suffix = SEALED_SUFFIX if kind(address) == SEALED_BLOB else ""
        digits = address.partition(":")[2]
        return self._root / digits[:2] / f"{digits[2:]}{suffix}"

    def _keep(self, address: str, size: int, sealed: Callable[[], bytes]) -> None:
        if not self._renew(address, size):
            self._write(address, sealed())

    def _write(self, address: str, stored: bytes) -> None:
        target = self._path(address)
        unfinished = self._root / UNFINISHED / f"{os.getpid()}-{secrets.token_hex(8)}"
        with _translated(target, "be written"):
            try:
                # Before the lock: a deletion need not wait for a slow disk.
                _write_synced(unfinished, stored)
                _make_folder(target.parent)
                with _locked(target.parent, fcntl.LOCK_SH) as folder:
                    # The time of last write counts from now: the write may have taken long.
                    os.utime(unfinished)
                    unfinished.replace(target)
                    # Without this sync, a power failure may undo the rename.
                    os.fsync(folder)
            finally:
                unfinished.unlink(missing_ok=True)

    def _renew(self, address: str, size: int) -> bool:
        path = self._path(address)
        with _translated(path, "be read"):
            try:
                with _locked(path.parent, fcntl.LOCK_SH) as folder:
                    if path.stat().st_size != size:
                        return False
                    os.utime(path)
                    # The caller relies on the blob from now on, but the process that wrote it may
                    # not have reached its own sync.
                    os.fsync(folder)
            except FileNotFoundError:
                return False
            return True

    def _read(self, address: str) -> bytes | None:
        path = self._path(address)
        with _translated(path, "be read"):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                return None

    def _exists(self, address: str) -> bool:
        path = self._path(address)
        with _translated(path, "be read"):
            try:
                path.stat()
            except FileNotFoundError:
                return False
            return True

    def _delete(self, address: str, written_before: float) -> int | None:
        path = self._path(address)
        with _translated(path, "be deleted"):
            try:
                with _locked(path.parent, fcntl.LOCK_EX):
                    facts = path.stat()
                    if facts.st_mtime >= written_before:
                        return None
                    path.unlink()
            except FileNotFoundError:
                return None
            return facts.st_size

    def _folders(self) -> list[Path]:
        with _translated(self._root, "be listed"):
            # Files of others may be in between, such as those of a desktop or of NFS.
            own = (path for path in self._root.iterdir() if _FOLDER.fullmatch(path.name))
            return sorted(path for path in own if path.is_dir())


def try_file(path: Path, size: int) -> None:
    """Write a file of this size and delete it again (blocking); raises `StoreAway`."""
    with _translated(path, "be written"):
        try:
            _write_synced(path, bytes(size))
        finally:
            path.unlink(missing_ok=True)


def _write_synced(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        folder.mkdir(mode=0o700, exist_ok=True)
        # A new folder must reach the disk too, or its files are lost with it.
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _locked(folder: Path, operation: int) -> Generator[int]:
    """The folder, open and locked; the lock ends when it is closed or its process dies."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, operation)
        yield descriptor
    finally:
        os.close(descriptor)


def _drop_stale(file: Path) -> None:
    try:
        if time.time() - file.stat().st_mtime > STALE_SECONDS:
            file.unlink()
    except FileNotFoundError:
        return


def _list_folder(folder: Path) -> list[tuple[str, int, datetime]]:
    with _translated(folder, "be listed"):
        return [found for path in folder.iterdir() if (found := _describe(path)) is not None]


def _describe(path: Path) -> tuple[str, int, datetime] | None:
    name = path.name.removesuffix(SEALED_SUFFIX)
    prefix = PLAIN_BLOB if name == path.name else SEALED_BLOB
    address = f"{prefix}:{path.parent.name}{name}"
    if not is_address(address):
        return None
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return address, facts.st_size, datetime.fromtimestamp(facts.st_mtime, UTC)


@contextmanager
def _translated(path: Path, verb: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        cause = error.strerror or str(error)
        cure = _CURES.get(error.errno or 0, "Check the disk and the folder, and try again.")
        raise StoreAway(f"The blob store file {path} cannot {verb}: {cause}.", cure=cure) from error
