"""Parses a typed line into a command, or into an action of the prompt itself."""

import shlex
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from perdure.domain.foundation.errors import InvalidInput

SLASH = "/"
LEAVE = ("quit", "exit", "q")
HELP = ("help", "?")
# Not allowed here: they hold the terminal until they end, or are this prompt itself.
FOREGROUND = ("up", "worker", "codec", "mcp", "api", "repl", "logs")


@dataclass(frozen=True, slots=True)
class Meant:
    """The parsed line; `words` are the command and its arguments, without the slash."""

    type: Literal["nothing", "leave", "help", "command"]
    words: tuple[str, ...] = ()


def meaning(line: str, *, known: tuple[str, ...]) -> Meant:
    """Parse a line.

    Args:
        line: as it was typed.
        known: the names of the commands.

    Raises:
        InvalidInput: it is no command; the message names the nearest one.
    """
    text = line.strip()
    if not text or text.startswith("#"):
        return Meant("nothing")
    if not text.startswith(SLASH):
        raise InvalidInput(
            f"Commands begin with a slash; found {text[:40]!r}.",
            cure='Start a run with /run "a goal"; /help lists all commands.',
        )
    try:
        words = tuple(shlex.split(text.removeprefix(SLASH)))
    except ValueError as error:
        raise InvalidInput(
            f"The line cannot be read: {str(error).lower()}.", cure="Close the quotes."
        ) from None
    if not words:
        return Meant("help")
    name = words[0]
    if name in LEAVE:
        return Meant("leave")
    if name in HELP:
        return Meant("help", words[1:])
    if name not in known:
        near = get_close_matches(name, (*known, *LEAVE, *HELP), n=1)
        hint = f" Did you mean /{near[0]}?" if near else ""
        raise InvalidInput(f"There is no command /{name}.{hint}", cure="/help lists all commands.")
    if name in FOREGROUND and not _ends_at_once(words):
        raise InvalidInput(
            f"/{name} holds a terminal until it ends.", cure=f"Run `perdure {name}` in another one."
        )
    return Meant("command", words)


def _ends_at_once(words: tuple[str, ...]) -> bool:
    return (
        "--help" in words
        or (words[0] == "up" and "--detach" in words)
        or (words[0] == "logs" and "--follow" not in words)
        or words[:2] == ("api", "token")
    )
