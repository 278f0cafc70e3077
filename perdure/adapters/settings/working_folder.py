"""The current folder of the process, which somebody may have deleted."""

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
