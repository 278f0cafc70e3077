"""Reads text files that people write."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from perdure.domain.foundation.errors import InvalidInput, NotFound

MIB = 1024 * 1024
# Texts that came through a pipe, such as /dev/stdin: it can be read once, but a task is read again.
_of_command: dict[Path, str] = {}
_piped: ContextVar[dict[Path, str]] = ContextVar("_piped", default=_of_command)


def read_text(path: Path, *, most_bytes: int = MIB, too_large: str = "Shorten it.") -> str:
    """The text of a file in UTF-8, without the byte order mark that some editors write.

    Args:
        most_bytes: no more is read, however large the file is.
        too_large: what to do with a file that is larger.

    Raises:
        NotFound: there is no such file.
        InvalidInput: it cannot be read, is larger, or is not UTF-8.
    """
    piped = _piped.get()
    if path in piped:
        return piped[path]
    try:
        with path.open("rb") as file:
            # One byte more shows that it is too large: a pipe has no size to ask for.
            data = file.read(most_bytes + 1)
            is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"There is no file {path}.", cure="Check the path.") from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} is a folder.", cure="Name a file.") from None
    except OSError as error:
        raise InvalidInput(
            f"The file {path} cannot be read: {error.strerror or error}.", cure="Make it readable."
        ) from error
    except ValueError as error:  # a NUL or half a character in the path
        raise InvalidInput(f"{str(path)!r} is no path: {error}.", cure="Check the path.") from None
    if len(data) > most_bytes:
        raise InvalidInput(f"The file {path} is larger than {most_bytes:,} bytes.", cure=too_large)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"The file {path} is not UTF-8 text ({error.reason}).", cure="Save it as UTF-8."
        ) from None
    if not is_regular:
        piped[path] = text
    return text


@contextmanager
def pipes_read_anew() -> Generator[None]:
    """Read each pipe once in here, whatever came through it before.

    A program that goes on may get another text through the same pipe, and must not take the first
    one for it.
    """
    before = _piped.set({})
    try:
        yield
    finally:
        _piped.reset(before)
