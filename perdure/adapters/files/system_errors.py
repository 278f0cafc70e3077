"""Turns errors of the file system into failures that name the path and say what to do."""

import errno
from collections.abc import Generator
from contextlib import contextmanager

from perdure.adapters.files.disk import NO_ROOM, no_room
from perdure.adapters.files.paths import shown
from perdure.domain.foundation.errors import ToolFailure

DENIED = "denied"


@contextmanager
def translate_file_errors(parts: tuple[str, ...]) -> Generator[None]:
    """Turn system errors into failures that name the path and what to do."""
    path = shown("/".join(parts)) if parts else "."
    try:
        yield
    except FileExistsError:  # `folder` expects it
        raise
    except FileNotFoundError as error:
        raise ToolFailure(
            f"{path} does not exist. See what is there with fs.list.", reason="not_found"
        ) from error
    except OSError as error:
        if error.errno in NO_ROOM:  # an outage, about which the model can do nothing
            raise no_room(path, error) from error
        raise _failure(path, error) from error


def _failure(path: str, error: OSError) -> ToolFailure:
    match error.errno:
        case errno.ENAMETOOLONG | errno.EINVAL:
            return ToolFailure(
                f"{path} cannot be there: the file system refuses the name ({error.strerror}). "
                "Use a shorter, plain one.",
                reason="no_name",
            )
        case errno.ELOOP | errno.EMLINK:
            return ToolFailure(
                f"{path} leads through a symbolic link, which tools do not follow. "
                "Name the real file inside the workspace.",
                reason="link",
            )
        case errno.ENOTDIR:
            return ToolFailure(
                f"A part of {path} is not a folder (a file, or a symbolic link, which tools do "
                "not follow). See what is there with fs.list.",
                reason="not_a_folder",
            )
        case errno.ENXIO:
            return ToolFailure(
                f"{path} is a pipe or device; tools leave it alone.", reason="not_a_file"
            )
        case errno.EACCES | errno.EPERM:
            return ToolFailure(f"{path} may not be accessed by this worker.", reason=DENIED)
        case _:
            return ToolFailure(f"{path} cannot be used: {error.strerror}.", reason="io_error")
