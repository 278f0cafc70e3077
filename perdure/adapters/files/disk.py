"""Recognizes a full disk, which is an outage to wait for and not an error of the request."""

import errno
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress

from perdure.domain.foundation.errors import StoreAway

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
PROBE_BYTES = 64 * 1024
LITTLE_BYTES = 64 * 1024 * 1024
CURE = "Free disk space (perdure gc drops what no run needs); it is tried again."


@contextmanager
def disk_errors() -> Generator[None]:
    """Raise `StoreAway` in place of the system's word for a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise no_room(error.filename or "The disk of the working folders", error) from error


def no_room(place: object, error: OSError) -> StoreAway:
    """The disk has no room for this."""
    return StoreAway(f"{place} cannot be written: {error.strerror}.", cure=CURE)


def need_room(folder: str, *, said: str = "") -> None:
    """Look at the disk of a folder in which a program failed (blocking).

    A program that failed there while it had no room has not failed by itself. One may also fill a
    small disk of its own and say the same, so its words alone are no proof.

    Args:
        folder: where it worked.
        said: what it printed.

    Raises:
        StoreAway: there is no room for a small file, or little, and the program said that it found
            none.
    """
    scarce = os.strerror(errno.ENOSPC) in said or os.strerror(errno.EDQUOT) in said
    disk = os.statvfs(folder)
    if scarce and disk.f_bavail * disk.f_frsize < LITTLE_BYTES:
        raise no_room(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    # A folder that may not be written to says nothing of its disk.
    with disk_errors(), suppress(PermissionError), tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(PROBE_BYTES))
