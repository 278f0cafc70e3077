"""Locks of working folders over all processes of a host; a process that is killed holds none."""

import fcntl
import os
from pathlib import Path


def lock_of(place: Path) -> Path:
    return place.with_name(f".{place.name}.lock")


def try_lock(lock: Path) -> int | None:
    """A descriptor that holds the lock; None if another one has it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(lock, flags, 0o600)
    held = False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Who had it before may have removed the file, and the next one would lock a new file.
        held = os.path.samestat(os.fstat(descriptor), os.stat(lock))
    except (BlockingIOError, FileNotFoundError):
        pass
    finally:
        if not held:
            os.close(descriptor)
    return descriptor if held else None


def unlock(descriptor: int, place: Path) -> None:
    """Let go of the lock of a folder; its file goes with the folder."""
    try:
        if not place.is_dir():
            lock_of(place).unlink(missing_ok=True)
    finally:
        os.close(descriptor)
