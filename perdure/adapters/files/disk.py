"""Recognizes a full disk, which is an outage to wait for, not an error of the request."""

import errno
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress

from perdure.domain.foundation.errors import StoreAway

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
PROBE_BYTES = 64 * 1024
# Less free space than this makes a program's complaint about the disk believable.
LITTLE_BYTES = 64 * 1024 * 1024
CURE = "Free disk space (perdure gc drops what no run needs); it is tried again."


@contextmanager
def disk_errors() -> Generator[None]:
    """Raise `StoreAway` instead of the system's error of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise no_room(error.filename or "The disk of the working folders", error) from error


def no_room(place: object, error: OSError) -> StoreAway:
    """The error of a full disk."""
    return StoreAway(f"{place} cannot be written: {error.strerror}.", cure=CURE)


def need_room(folder: str, *, said: str = "") -> None:
    """Check whether a program may have failed because the disk of its folder is full (blocking).

    Its output alone does not prove that: it may have filled a small disk of its own.

    Args:
        folder: where it worked.
        said: what it printed.

    Raises:
        StoreAway: there is no room for a small file; or there is little room, and the program said
            that the disk is full.
    """
    scarce = os.strerror(errno.ENOSPC) in said or os.strerror(errno.EDQUOT) in said
    disk = os.statvfs(folder)
    if scarce and disk.f_bavail * disk.f_frsize < LITTLE_BYTES:
        raise no_room(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    # In a folder without write permission nothing can be learned about its disk.
    with disk_errors(), suppress(PermissionError), tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(PROBE_BYTES))
