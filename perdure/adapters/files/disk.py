"""When a disk itself has no room: that heals by itself, and is no fault of what was asked."""

import errno
from collections.abc import Generator
from contextlib import contextmanager

from perdure.domain.errors import StoreAway

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
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
