"""Files that commands write where a person says; what the system refuses is told in words."""

import shlex
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.foundation.plain_text import cause_in_words


@contextmanager
def writing(path: Path, *, cure: str) -> Generator[None]:
    """Raise `NotAllowed` with the path and the cure where the system refuses to write there."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileExistsError):  # on the way to a folder
            why = f"{error.filename} is no folder"
        else:
            why = cause_in_words(error, otherwise=error.strerror or "the system refused it")
        raise NotAllowed(f"{path} cannot be written: {why}.", cure=cure) from error


def as_typed(path: Path, folder: Path) -> str:
    """A path as one word of a command that is typed in a folder."""
    return shlex.quote(str(path.relative_to(folder) if path.is_relative_to(folder) else path))


def require_place(path: Path, *, option: str) -> None:
    """Refuse a place where a later `write_file` would fail, before work that takes long.

    What the file holds stays as it is, and a file that is not there is not left behind.

    Raises:
        NotAllowed: the system refuses to write there.
    """
    with writing(path, cure=f"Name another file with {option}."):
        path.parent.mkdir(parents=True, exist_ok=True)
        # A link to nowhere is no file to `exists`, and must not be taken away as a new one.
        is_new = not (path.exists() or path.is_symlink())
        # Opened, as permissions alone do not tell: a disk may be mounted for reading only.
        path.open("ab").close()
        if is_new:
            path.unlink()


def write_file(path: Path, data: bytes, *, option: str, force: bool) -> None:
    """Write a file, and the folders above it.

    Args:
        path: the file.
        data: what it is to hold.
        option: the option that names the file, for errors.
        force: overwrite an existing file.

    Raises:
        NotAllowed: the file exists, or the system refuses it.
    """
    with writing(path, cure=f"Name another file with {option}."):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # Looked at and created in one step, or another program could write it in between.
            file = path.open("wb" if force else "xb")
        except FileExistsError:
            raise NotAllowed(
                f"{path} exists already.", cure=f"Name another with {option}, or use --force."
            ) from None
        with file:
            file.write(data)
