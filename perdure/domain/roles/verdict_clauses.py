"""Takes a reviewer's text apart into clauses, leaving out what the reviewer does not say.

Code, comments, struck-out words, open check boxes and quoted words state nothing. All of it is
linear in the length of the text.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from perdure.domain.foundation.plain_text import folded

CROSS = "¬"  # stands for every picture that says no
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_STRUCK = re.compile(r"~~[^~\n]*~~")
_MARKS = re.compile(r"^(?:\s*(?:#{1,6}(?=\s)|[-*+•](?=\s)|\d{1,3}[.)](?=\s)|\[[xX]\](?=\s)))+\s*")
_OPEN_BOX = re.compile(r"^\s*(?:[-*+•]\s+)?\[\s*\]")
_SENTENCE_END = re.compile(r"(?<=[.!?;。！？…])(?=[\s*_\"')]|$|[^\x00-\x7f])|(?<=[。！？])")
# Their full stops end no sentence.
_ABBREVIATED = re.compile(r"\b([ei])\.\s?([ge])\.", re.IGNORECASE)
_EMPHASIS = re.compile(r"\*{1,3}|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)|`{2,}")
_LABELLED_QUOTE = re.compile(r"(?<=[:=])(\s*)[\"'`]([\w ]{1,40})[\"'`]")
_QUOTED = re.compile(r"\"[^\"\n]{0,200}\"|`[^`\n]{1,200}`|(?<!\w)'[^'\n]{1,80}'(?!\w)")
_CONTRACTED = re.compile(r"\b(i|we|it|this|that|everything|all)'(m|re|s|ve)\b")
_VERBS = {"m": "am", "re": "are", "s": "is", "ve": "have"}
_SYMBOLS = str.maketrans(
    {
        "‘": "'",
        "’": "'",
        "‚": "'",
        "“": '"',
        "”": '"',
        "„": '"',
        "«": '"',
        "»": '"',
        "‐": "-",
        "‑": "-",
        "–": "-",
        "—": "-",
        "❌": f" {CROSS} ",
        "✗": f" {CROSS} ",
        "✘": f" {CROSS} ",
        "🚫": f" {CROSS} ",
        "⛔": f" {CROSS} ",
        "👎": f" {CROSS} ",
    }
)


@dataclass(frozen=True, slots=True)
class Clause:
    """A sentence or a part of one, in small letters and with single spaces.

    Args:
        text: without marks, emphasis, pictures and quoted words.
        is_question: it ends with a question mark.
        is_own: the reviewer says it: neither a block quote nor indented code.
    """

    text: str
    is_question: bool
    is_own: bool


def clauses(text: str) -> Iterator[Clause]:
    """What the text says, sentence by sentence."""
    plain = _ABBREVIATED.sub(r"\1\2", folded(text).translate(_SYMBOLS))
    for line in _without_code(_without_comments(plain).splitlines()):
        if _OPEN_BOX.match(line):
            continue
        bare = line.lstrip()
        is_own = not bare.startswith(">") and not line.startswith(("    ", "\t"))
        for sentence in _SENTENCE_END.split(_row(_MARKS.sub("", bare.lstrip("> ")))):
            words = _words(sentence)
            if words:
                yield Clause(text=words, is_question=words.endswith("?"), is_own=is_own)


def _without_comments(text: str) -> str:
    kept: list[str] = []
    rest = text
    while (start := rest.find("<!--")) >= 0 and (end := rest.find("-->", start)) >= 0:
        kept.append(rest[:start])
        rest = rest[end + 3 :]
    return " ".join([*kept, rest])


def _without_code(lines: list[str]) -> Iterator[str]:
    """The lines outside fences; a fence that nobody closes is none."""
    closes = _fence_ends(lines)
    skip_to = -1
    for number, line in enumerate(lines):
        if number <= skip_to:
            continue
        if number in closes:
            skip_to = closes[number]
            continue
        yield line


def _fence_ends(lines: list[str]) -> dict[int, int]:
    """Where each fence that opens is closed."""
    ends: dict[int, int] = {}
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        found = _FENCE.match(line)
        if found is None:
            continue
        if opened is None:
            opened = (number, found.group(1))
        elif found.group(1) == opened[1]:
            ends[opened[0]] = number
            opened = None
    return ends


def _row(line: str) -> str:
    """A row of a table with two cells as `label: value`."""
    if not line.startswith("|"):
        return line
    cells = [cell.strip() for cell in line.strip("| ").split("|")]
    return ": ".join(cells) if len(cells) == 2 else "; ".join(cells)


def _words(sentence: str) -> str:
    bare = _EMPHASIS.sub("", _STRUCK.sub(" ", sentence))
    bare = _QUOTED.sub(" ” ", _LABELLED_QUOTE.sub(r"\1\2", bare))
    kept = (one for one in bare.casefold() if unicodedata.category(one) not in _SILENT)
    return _CONTRACTED.sub(_in_full, " ".join("".join(kept).split()))


def _in_full(found: re.Match[str]) -> str:
    return f"{found[1]} {_VERBS[found[2]]}"


# Pictures, and characters that are not seen.
_SILENT = frozenset({"So", "Cf", "Co", "Cs", "Mn", "Me"})
