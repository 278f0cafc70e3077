"""Regular expressions and globs that a model wrote, matched in linear time.

Python's own `re` backtracks, so one bad pattern could block the worker for ever. RE2 does not.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import re2

from perdure.domain.foundation.errors import ToolFailure

MAX_PATTERN = 1_000
# RE2 fails with an error instead of using more.
_MEMORY = 8 * 1024 * 1024

Span = tuple[int, int]
Finder = Callable[[str], Span | None]


def finder(pattern: str, *, regex: bool, ignore_case: bool = False) -> Finder:
    """A function that finds the first match in a line, as (start, end), or None.

    Args:
        pattern: literal text, or RE2 syntax when `regex` is true.
        regex: whether `pattern` is a regular expression.
        ignore_case: match letters of either case.

    Raises:
        ToolFailure: the pattern is empty, too long, or not RE2 syntax (which has no look-around and
            no back-references).
    """
    compiled = _checked(pattern, regex=regex, ignore_case=ignore_case)

    def find(line: str) -> Span | None:
        matched = compiled.search(line)
        return None if matched is None else (matched.start(), matched.end())

    return find


def all_finder(
    patterns: Sequence[str], *, ignore_case: bool = False
) -> Callable[[str], Iterator[Span]]:
    """A function that finds every match of several regular expressions in a line, in one pass."""
    union = "|".join(f"(?:{pattern})" for pattern in patterns)
    compiled = _checked(union, regex=True, ignore_case=ignore_case)

    def find(line: str) -> Iterator[Span]:
        for matched in compiled.finditer(line):
            yield matched.start(), matched.end()

    return find


def _checked(pattern: str, *, regex: bool, ignore_case: bool) -> "_Compiled":
    if not pattern or len(pattern) > MAX_PATTERN:
        raise ToolFailure(
            f"The pattern has {len(pattern)} characters; 1 to {MAX_PATTERN} are allowed.",
            reason="pattern",
        )
    return _compile(pattern, regex=regex, ignore_case=ignore_case)


def glob_matcher(
    pattern: str,
    *,
    ignore_case: bool = False,
    whole: bool | None = None,
    across: bool = False,
) -> Callable[[str], bool]:
    """Whether a path matches a glob: `*` and `?` within a name, `**` across folders.

    Args:
        pattern: the glob.
        ignore_case: match letters of either case.
        whole: compare with the whole path, not its last name; by default if the pattern has a
            slash.
        across: `*` and `?` match slashes too, as where find compares paths.
    """
    if not pattern or len(pattern) > MAX_PATTERN:
        raise ToolFailure(
            f"The glob {pattern[:80]!r} has {len(pattern)} characters; 1 to {MAX_PATTERN} are "
            "allowed.",
            reason="pattern",
        )
    parts: list[str] = re.findall(_GLOB, pattern)
    wild = _ACROSS_PARTS if across else _GLOB_PARTS
    source = "".join(wild.get(part) or _glob_text(part) for part in parts)
    compiled = _compile(f"^(?:{source})$", regex=True, ignore_case=ignore_case)
    whole = "/" in pattern if whole is None else whole

    def matches(path: str) -> bool:
        return compiled.search(path if whole else path.rpartition("/")[2]) is not None

    return matches


_GLOB = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^\]/]+\]|[^*?\[]+|\[")
_GLOB_PARTS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_ACROSS_PARTS = {"**/": ".*/", "**": ".*", "*": ".*", "?": "."}


def _glob_text(part: str) -> str:
    if part.startswith("[") and part.endswith("]") and len(part) > 2:
        negated = part[1] == "!"
        inside = part[2:-1] if negated else part[1:-1]
        # In a glob, these are plain characters; in a class of RE2 they are not.
        escaped = inside.replace("\\", "\\\\").replace("^", "\\^").replace("[", "\\[")
        return f"[{'^' if negated else ''}{escaped}]"
    return re2.escape(part)


class _Match(Protocol):
    def start(self) -> int: ...
    def end(self) -> int: ...


class _Compiled(Protocol):
    """The part of a compiled RE2 pattern that is used here."""

    def search(self, text: str) -> _Match | None: ...
    def finditer(self, text: str) -> Iterator[_Match]: ...


def _compile(pattern: str, *, regex: bool, ignore_case: bool) -> _Compiled:
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False  # RE2 would write to standard error itself
    options.literal = not regex
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(pattern, options)
    # The second: half of a surrogate pair, which RE2 cannot be given.
    except (re2.error, UnicodeEncodeError) as error:
        raise ToolFailure(
            f"The pattern {pattern[:80]!r} is not a regular expression of RE2 "
            f"({error}); look-around and back-references do not exist there.",
            reason="pattern",
        ) from error
