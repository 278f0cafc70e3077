"""An exclusive lock on a file; the kernel lets go of it when its holder dies."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def try_lock(path: Path) -> Generator[bool]:
    """Hold the lock while inside; yields False at once when somebody else holds it.

    The descriptor is not inherited by children, so a child never keeps a dead parent's lock.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
