"""The current folder of the process and the home folders of users, which may not be there."""

from pathlib import Path

from perdure.domain.foundation.errors import InvalidInput


def working_folder() -> Path:
    """The current folder.

    Raises:
        InvalidInput: it is gone, so nothing beside it can be read, and no process can start in it.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise InvalidInput(
            f"The current folder cannot be used: {error.strerror or error}.",
            cure="Change into a folder that exists.",
        ) from None


def expanded(path: str | Path) -> Path:
    """A path with the folder of a user in place of `~` or `~NAME` at its beginning.

    Raises:
        InvalidInput: there is no such user, or nobody knows where the folder is.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InvalidInput(
            f"Nobody knows which folder the beginning of the path {str(path)!r} means.",
            cure="Write the whole path, or correct the name of the user behind `~`.",
        ) from None
