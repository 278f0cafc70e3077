"""Regular expressions of users and models on RE2, so that no pattern can block a worker."""

from functools import lru_cache
from typing import Protocol

import re2

from perdure.extending.check_decorator import CheckFailed

MAX_MEMORY_BYTES = 8 << 20
CACHED_PATTERNS = 128


class Pattern(Protocol):
    """The part of a compiled pattern that checks use."""

    def search(self, text: bytes) -> object | None:
        """The first match, or None."""
        ...

    def count(self, text: bytes) -> int:
        """The number of matches."""
        ...


# On bytes, in which lone surrogates are replaced; RE2 refuses a `str` that has them.
class _Compiled:
    def __init__(self, pattern: str) -> None:
        options = re2.Options()
        # RE2 would write each refused pattern to the standard error of the worker.
        options.log_errors = False
        options.max_mem = MAX_MEMORY_BYTES
        self._compiled = re2.compile(pattern.encode("utf-8", "replace"), options)

    def search(self, text: bytes) -> object | None:
        return self._compiled.search(text)

    def count(self, text: bytes) -> int:
        # Not a list, which would hold every match of a long text at once.
        return sum(1 for _ in self._compiled.finditer(text))


@lru_cache(maxsize=CACHED_PATTERNS)
def compile_pattern(pattern: str) -> Pattern:
    """Compile a pattern.

    Raises:
        CheckFailed: it is not RE2 syntax, which has no look-around and no back-references.
    """
    try:
        return _Compiled(pattern)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise CheckFailed(
            f"the pattern {pattern!r} cannot be used: {text}.",
            cure="Write it in RE2 syntax, without look-around and back-references.",
        ) from error


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern occurs anywhere in the text."""
    return compile_pattern(pattern).search(text.encode("utf-8", "replace")) is not None


def count_matches(pattern: str, text: str) -> int:
    """How often the pattern occurs in the text, without overlaps."""
    return compile_pattern(pattern).count(text.encode("utf-8", "replace"))
