"""An output as lines: one part each, numbered from 1, blank ones left out of a new draft."""

import re
from collections.abc import Mapping, Sequence

_LIST_MARK = re.compile(r"[-*•]\s+")
# An apostrophe within a word is no quotation mark.
_SINGLE = re.compile(r"(?<!\w)'|'(?!\w)")


def tidy(text: str, count: int) -> str:
    """The first `count` lines with text, one each; missing ones are empty, surplus ones go."""
    lines = [line.strip() for line in text.splitlines() if line.strip()][:count]
    return "\n".join([*lines, *([""] * (count - len(lines)))])


def part_text(text: str, part: int) -> str:
    """Line `part`, from 1; empty when there is none."""
    lines = text.split("\n")
    return lines[part - 1].strip() if part <= len(lines) else ""


def replaced(text: str, replies: Mapping[int, str], count: int) -> str:
    """The output with new versions of some lines; empty ones hold their place."""
    lines: Sequence[str] = text.split("\n")
    lines = [*lines, *([""] * (count - len(lines)))]
    return "\n".join(replies.get(n, line) for n, line in enumerate(lines, start=1))


def reply(text: str) -> str:
    """The line in a model's reply: its first with text, without quotes and list marks around it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _bare(lines[0]) if lines else ""


def _bare(line: str) -> str:
    """A line without the marks around all of it; those around some of its words stay."""
    bare = _LIST_MARK.sub("", line, count=1) if _LIST_MARK.match(line) else line
    for mark in '*`"':
        inner = bare.strip(mark)
        # One that is left inside belongs to one at an end, as in `Say "yes"`.
        bare = bare if mark in inner else inner.strip()
    if bare[:1] == bare[-1:] == "'" and not _SINGLE.search(bare.strip("'")):
        bare = bare.strip("'").strip()
    return bare if bare == line else _bare(bare)
