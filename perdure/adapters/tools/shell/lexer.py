"""One strict lexer from a command line to words: whatever a shell would interpret is refused.

There is no shell behind it, so nothing here is about escaping; refusing keeps a model from
believing that a pipe, a glob or a variable did something.
"""

import unicodedata
from dataclasses import dataclass

from perdure.domain.foundation.errors import ToolFailure

MAX_COMMAND = 4_096
MAX_WORDS = 64

_META = frozenset("|&;<>()$`\\!*?[]{}#")
_META_AT_START = frozenset("~^=%")
_EXPANDED_IN_DOUBLE = frozenset("$`!")
_BACKSLASHED_IN_DOUBLE = frozenset('$`"\\')
_REFUSED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Word:
    """One argument; `bare` when no part of it was quoted."""

    text: str
    bare: bool


def split(command: str) -> tuple[Word, ...]:
    """The words of a command line.

    Raises:
        ToolFailure: a shell metacharacter outside quotes, an expansion inside double quotes, an
            open quote, a control or format character, or too much of anything.
    """
    if len(command) > MAX_COMMAND:
        raise refused(f"the command has {len(command)} characters, {MAX_COMMAND} are allowed")
    for character in command:
        if unicodedata.category(character) in _REFUSED_CATEGORIES:
            raise refused(f"it holds the character U+{ord(character):04X}; one plain line, please")
    words = _Lexer(command).words()
    if not words:
        raise refused("it is empty")
    if len(words) > MAX_WORDS:
        raise refused(f"it has {len(words)} words, {MAX_WORDS} are allowed")
    return words


def refused(why: str) -> ToolFailure:
    """The failure for a command that is not run."""
    return ToolFailure(
        f"This command is not run: {why}. There is no shell here: no pipes, redirections, "
        "variables or unquoted globs; one command of the fixed list at a time.",
        reason="refused",
    )


class _Lexer:
    """A cursor over one command line."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._at = 0

    def words(self) -> tuple[Word, ...]:
        found: list[Word] = []
        while self._at < len(self._command):
            if self._command[self._at] == " ":
                self._at += 1
            else:
                found.append(self._word())
        return tuple(found)

    def _word(self) -> Word:
        text: list[str] = []
        bare = True
        while self._at < len(self._command) and (here := self._command[self._at]) != " ":
            if here in "'\"":
                bare = False
                text.append(self._quoted(here))
            else:
                text.append(self._plain(here, first=not text))
        return Word(text="".join(text), bare=bare)

    def _plain(self, here: str, *, first: bool) -> str:
        if here in _META or (first and here in _META_AT_START):
            raise refused(f"it holds {here!r} outside quotes (position {self._at})")
        if here.isspace():
            raise refused(f"it holds the unusual space U+{ord(here):04X}")
        self._at += 1
        return here

    def _quoted(self, quote: str) -> str:
        start = self._at
        end = self._command.find(quote, start + 1)
        if end < 0:
            raise refused(f"the quote at position {start} is not closed")
        inside = self._command[start + 1 : end]
        if quote == '"':
            _check_double(inside, following=self._command[end])
        self._at = end + 1
        return inside


def _check_double(inside: str, *, following: str) -> None:
    """Inside double quotes a shell still expands; a backslash is literal before other letters."""
    for here, after in zip(inside, (inside + following)[1:], strict=True):
        if here in _EXPANDED_IN_DOUBLE or (here == "\\" and after in _BACKSLASHED_IN_DOUBLE):
            raise refused(f"it holds {here!r} inside double quotes; use single quotes")
