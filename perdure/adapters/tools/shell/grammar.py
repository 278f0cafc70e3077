"""Parses a command line strictly into words, flags and operands, before anything runs.

No shell follows, so nothing here escapes anything. Metacharacters are refused so that a model does
not believe that a pipe, a glob or a variable had an effect.

A flag that is not in the table is refused, and so are abbreviations, and values glued to a flag
unless the table allows it. Clusters such as `-rn` are accepted only if every letter is a listed
flag without a value, and only for commands that Perdure implements itself.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from perdure.adapters.files.paths import parse as parse_path
from perdure.domain.foundation.errors import ToolFailure

MAX_COMMAND = 4_096
MAX_WORDS = 64

_META = frozenset("|&;<>()$`\\!*?[]{}#")
_META_AT_START = frozenset("~^=%")
_EXPANDED_IN_DOUBLE = frozenset("$`!")
_BACKSLASHED_IN_DOUBLE = frozenset('$`"\\')
# Control, format, surrogate, private, unassigned, and the line and paragraph separators.
_REFUSED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Word:
    """One argument; `bare` if no part of it was quoted."""

    text: str
    bare: bool


def split(command: str) -> tuple[Word, ...]:
    """The words of a command line.

    Raises:
        ToolFailure: a shell metacharacter outside quotes, an expansion inside double quotes, an
            open quote, a control or format character, or too many characters or words.
    """
    if len(command) > MAX_COMMAND:
        raise command_error(f"the command has {len(command)} characters, {MAX_COMMAND} are allowed")
    for character in command:
        if unicodedata.category(character) in _REFUSED_CATEGORIES:
            raise command_error(
                f"it holds the character U+{ord(character):04X}; one plain line, please"
            )
    words = _Lexer(command).words()
    if not words:
        raise command_error("it is empty")
    if len(words) > MAX_WORDS:
        raise command_error(f"it has {len(words)} words, {MAX_WORDS} are allowed")
    return words


def command_error(why: str) -> ToolFailure:
    """The failure of a command that is not run."""
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
            raise command_error(f"it holds {here!r} outside quotes (position {self._at})")
        if here.isspace():
            raise command_error(f"it holds the unusual space U+{ord(here):04X}")
        self._at += 1
        return here

    def _quoted(self, quote: str) -> str:
        start = self._at
        end = self._command.find(quote, start + 1)
        if end < 0:
            raise command_error(f"the quote at position {start} is not closed")
        inside = self._command[start + 1 : end]
        if quote == '"':
            _check_double(inside, following=self._command[end])
        self._at = end + 1
        return inside


def _check_double(inside: str, *, following: str) -> None:
    """Refuse what a shell would expand inside double quotes, or take a backslash away from."""
    # With the closing quote, which a backslash before it would escape.
    for here, after in zip(inside, (inside + following)[1:], strict=True):
        if here in _EXPANDED_IN_DOUBLE or (here == "\\" and after in _BACKSLASHED_IN_DOUBLE):
            raise command_error(f"it holds {here!r} inside double quotes; use single quotes")


Check = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Flag:
    """One allowed flag.

    Args:
        names: all its exact spellings; the first is its key in the result.
        value: a check of its value; None for a flag without a value.
        glued: short spellings may have the value in the same word (`-n5`).
        optional: the value may be absent; then only `--name=value` gives one.
    """

    names: tuple[str, ...]
    value: Check | None = None
    glued: bool = False
    optional: bool = False

    @property
    def key(self) -> str:
        return self.names[0].lstrip("-")


@dataclass(frozen=True, slots=True)
class Grammar:
    """What a command accepts.

    Args:
        flags: the allowed flags.
        minimum: how many operands there must be.
        maximum: how many operands there may be.
        clusters: whether short flags without values may share a word.
        count_flag: the key of the flag that `-5` means, or None.
    """

    flags: tuple[Flag, ...]
    minimum: int = 0
    maximum: int = 32
    clusters: bool = True
    count_flag: str | None = None


@dataclass(slots=True)
class Parsed:
    """A parsed command: values by flag key, in order, and the operands.

    `divider` is how many operands came before `--`, or None without one.
    """

    flags: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    operands: list[str] = field(default_factory=list[str])
    divider: int | None = None

    def has(self, *keys: str) -> bool:
        return any(key in self.flags for key in keys)

    def last(self, key: str, default: str = "") -> str:
        return self.flags.get(key, [default])[-1]

    def number(self, key: str, default: int) -> int:
        return int(self.last(key, str(default)))


def switch(*names: str) -> Flag:
    """A flag without a value."""
    return Flag(names=names)


def switches(letters: str) -> tuple[Flag, ...]:
    """One-letter flags without values."""
    return tuple(Flag(names=(f"-{letter}",)) for letter in letters)


def is_count(text: str) -> bool:
    """A plain number of at most six digits."""
    return re.fullmatch(r"[0-9]{1,6}", text) is not None


def is_text(text: str) -> bool:
    """Any text that is not empty; only for flags whose value is neither a path nor a program."""
    return bool(text)


def one_of(*values: str) -> Check:
    """One of a fixed set of words."""
    return lambda text: text in values


def matching(pattern: str) -> Check:
    """Text of exactly this form."""
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def path_parts(text: str) -> tuple[str, ...]:
    """A path operand as checked components (raises `ToolFailure`)."""
    return parse_path(text, use="read")


def read(command: str, words: Sequence[Word], grammar: Grammar) -> Parsed:
    """Parse the words after a command's name; raises `ToolFailure` (`refused`)."""
    reader = _Reader(command, grammar, [word.text for word in words])
    parsed = reader.read()
    count = len(parsed.operands)
    if count < grammar.minimum:
        raise command_error(
            f"{command} needs {grammar.minimum} operand(s) and got {count}; "
            "there is no standard input, so name a file"
        )
    if count > grammar.maximum:
        raise command_error(f"{command} takes at most {grammar.maximum} operand(s) and got {count}")
    return parsed


class _Reader:
    def __init__(self, command: str, grammar: Grammar, words: list[str]) -> None:
        self._command = command
        self._grammar = grammar
        self._words = words
        self._by_name = {name: flag for flag in grammar.flags for name in flag.names}
        self._parsed = Parsed()

    def read(self) -> Parsed:
        while self._words:
            word = self._words.pop(0)
            if word == "--":  # operands follow, even if they begin with a dash
                self._parsed.divider = len(self._parsed.operands)
                self._parsed.operands.extend(self._words)
                break
            if word.startswith("-") and word != "-":
                self._flag(word)
            elif word == "-":
                raise command_error("there is no standard input, so name a file instead of '-'")
            else:
                self._parsed.operands.append(word)
        return self._parsed

    def _flag(self, word: str) -> None:
        if flag := self._by_name.get(word):
            self._exact(flag, word)
            return
        readers = (self._long, self._counted, self._glued, self._cluster)
        if not any(reader(word) for reader in readers):
            raise self._unknown(word)

    def _exact(self, flag: Flag, word: str) -> None:
        if flag.value is None or flag.optional:
            self._add(flag, "")
        elif not self._words:
            raise command_error(f"{self._command}: the flag {word} needs a value")
        else:
            self._add(flag, self._checked(flag, self._words.pop(0)))

    def _long(self, word: str) -> bool:
        name, equals, value = word.partition("=")
        flag = self._by_name.get(name)
        if not equals or not name.startswith("--") or flag is None or flag.value is None:
            return False
        self._add(flag, self._checked(flag, value))
        return True

    def _counted(self, word: str) -> bool:
        if self._grammar.count_flag is None or not is_count(word[1:]):
            return False
        self._parsed.flags.setdefault(self._grammar.count_flag, []).append(word[1:])
        return True

    def _glued(self, word: str) -> bool:
        flag = self._by_name.get(word[:2])
        if word.startswith("--") or flag is None or flag.value is None or not flag.glued:
            return False
        self._add(flag, self._checked(flag, word[2:]))
        return True

    def _cluster(self, word: str) -> bool:
        if not self._grammar.clusters or word.startswith("--"):
            return False
        flags = [self._by_name.get(f"-{letter}") for letter in word[1:]]
        if not all(flag is not None and flag.value is None for flag in flags):
            return False
        for flag in flags:
            if flag is not None:
                self._add(flag, "")
        return True

    def _checked(self, flag: Flag, value: str) -> str:
        if flag.value is None or not flag.value(value):
            raise command_error(
                f"{self._command}: {flag.names[0]} does not take the value {value[:80]!r}"
            )
        return value

    def _add(self, flag: Flag, value: str) -> None:
        self._parsed.flags.setdefault(flag.key, []).append(value)

    def _unknown(self, word: str) -> Exception:
        allowed = " ".join(flag.names[0] for flag in self._grammar.flags) or "none"
        return command_error(
            f"{self._command} takes no flag {word[:80]!r} here (allowed: {allowed})"
        )
