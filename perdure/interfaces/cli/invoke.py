"""Resolves a command line to a command and its arguments."""

import errno
import inspect
import os
import re
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager

from cyclopts import App, CycloptsError, UnusedCliTokensError
from cyclopts import ValidationError as UnfitValue
from pydantic import ValidationError

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import allowed_in_words

JSON_FLAG = "--json"
# What is given behind `=` may have several lines.
_OPTION = re.compile(r"--?[\w-]*(=.*)?", re.DOTALL)
TAKE_TASKS = frozenset({"run", "validate"})
UNUSABLE = frozenset({errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP})
"""What the system says of a path that it does not let this process look at."""
PATH_CHARACTERS = 200
Command = Callable[..., Coroutine[object, object, int | None]]


def bound_to(
    app: App, words: Sequence[str]
) -> tuple[Command, inspect.BoundArguments, dict[str, object]]:
    """Find the command, its bound arguments, and the parameters that the caller must supply.

    Raises:
        InvalidInput: no command matches, or its arguments do not fit.
    """
    try:
        return app.parse_args(list(words), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        command = " ".join(("perdure", *(error.command_chain or ())))
        cure = f"`{command} --help` shows what there is."
        if any(_is_dashed_text(word) for word in words):
            cure += (
                " Before a text that begins with a dash write --, or --option=TEXT for an option's."
            )
        raise InvalidInput(_told(error), cure=cure) from None


def with_standard_input(argv: Sequence[str]) -> list[str]:
    """Name the file that `-` stands for, where a task file may stand."""
    if not argv or argv[0] not in TAKE_TASKS:
        return list(argv)
    # As a path, since a task is read more than once, and `read_text` keeps what came by a pipe.
    return ["/dev/stdin" if word == "-" else word for word in argv]


def without_json(argv: Sequence[str]) -> tuple[list[str], bool]:
    """Remove the `--json` flag that every command takes; after `--` it is an ordinary word."""
    end = argv.index("--") if "--" in argv else len(argv)
    kept = [word for word in argv[:end] if word != JSON_FLAG]
    return [*kept, *argv[end:]], JSON_FLAG in argv[:end]


def require_text(words: Sequence[str]) -> None:
    """Require words in UTF-8, which all that is kept or sent is in; only names of files may not be.

    Raises:
        InvalidInput: the bytes of a word are in another encoding.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            if not os.path.exists(word):
                raise InvalidInput(
                    f"{word!r} is no text in UTF-8.",
                    cure="Let the terminal or the script write UTF-8.",
                ) from None


@contextmanager
def places_told() -> Generator[None]:
    """Refuse a path that the system does not let this process look at, in words.

    Raises:
        InvalidInput: with the path and what the system says of it.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None or error.errno not in UNUSABLE:
            raise
        raise InvalidInput(
            f"{str(error.filename)[:PATH_CHARACTERS]} cannot be used: {error.strerror}.",
            cure="Name another place, or let this user read that one.",
        ) from error


def _is_dashed_text(word: str) -> bool:
    return word.startswith("-") and _OPTION.fullmatch(word) is None


def _told(error: CycloptsError) -> str:
    if isinstance(error, UnusedCliTokensError):
        return f"Too many words: {' '.join(error.unused_tokens or ())}"
    # Else in the words of pydantic, with a link to its documentation.
    if isinstance(error, UnfitValue) and isinstance(error.__cause__, ValidationError):
        allowed = allowed_in_words(error.__cause__.errors()[0])
        error.exception_message = f"Allowed: {allowed}."
    return str(error).strip()
