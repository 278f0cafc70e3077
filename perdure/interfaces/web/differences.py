"""A diff of two texts in one column: removed and added lines, with a little context."""

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

AROUND = 2
MOST_CHARACTERS = 200_000
# Of lines, and of words in all lines: seconds, which a hostile text could make hours.
MOST_STEPS = 10_000_000
# Below this ratio a line counts as another line, and its words are not compared.
ALIKE = 0.4
_WORDS = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")  # each with the space after it

Kind = Literal["same", "gone", "new", "gap"]
_KINDS: dict[str, Kind] = {" ": "same", "-": "gone", "+": "new", "@": "gap"}


class Piece(NamedTuple):
    """A part of a line; `differs` marks removed or added words."""

    text: str
    differs: bool = False


class Line(NamedTuple):
    """A line of the comparison; `pieces` marks the changed words if only some words changed."""

    kind: Kind
    text: str
    pieces: tuple[Piece, ...] = ()


def differences(before: str, after: str) -> tuple[Line, ...] | None:
    """Changed lines with context; empty if nothing differs.

    None if it would take too long: the texts are long, or repeat their lines too often. It may
    take seconds all the same, so an event loop calls it in a thread.
    """
    if len(before) + len(after) > MOST_CHARACTERS:
        return None
    one, two = before.splitlines(), after.splitlines()
    if _steps(one, two, autojunk=True) > MOST_STEPS:
        return None
    found = difflib.unified_diff(one, two, n=AROUND, lineterm="")
    lines = list(found)[2:]  # skip the two file headers
    told = [Line(_KINDS[line[0]], "…" if line[0] == "@" else line[1:]) for line in lines]
    return tuple(_with_words(told))


def _with_words(lines: list[Line]) -> list[Line]:
    """Mark the changed words in lines that replace each other one to one, as far as time allows."""
    found, at, left = list(lines), 0, MOST_STEPS
    while at < len(lines):
        gone = _run_of(lines, at, "gone")
        new = _run_of(lines, gone, "new")
        if 0 < gone - at == new - gone:
            for first, second in zip(range(at, gone), range(gone, new), strict=True):
                words = _words(lines[first].text), _words(lines[second].text)
                if (steps := _steps(*words, autojunk=False)) > left:
                    continue
                left -= steps
                before, after = _in_pieces(*words)
                found[first] = lines[first]._replace(pieces=before)
                found[second] = lines[second]._replace(pieces=after)
        at = max(new, at + 1)
    return found


def _run_of(lines: list[Line], at: int, kind: Kind) -> int:
    while at < len(lines) and lines[at].kind == kind:
        at += 1
    return at


def _words(line: str) -> list[str]:
    return _WORDS.findall(line)


def _steps(before: Sequence[str], after: Sequence[str], *, autojunk: bool) -> int:
    """How long a comparison takes at worst.

    It looks at all parts again for each block that it finds, and at each pair of equal parts;
    `autojunk` leaves frequent ones out.
    """
    counted = Counter(after)
    most = len(after) // 100 + 1 if autojunk and len(after) >= 200 else len(after)
    equal = [counted[part] for part in before if 0 < counted[part] <= most]
    return len(before) * len(equal) + 10 * sum(equal)


def _in_pieces(
    before: Sequence[str], after: Sequence[str]
) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Split both lines into pieces; no pieces if they have too little in common."""
    # In a line of 200 words and more, `autojunk` would leave frequent ones out of the comparison.
    matching = difflib.SequenceMatcher(None, before, after, autojunk=False)
    if matching.ratio() < ALIKE:
        return (), ()
    sides: tuple[list[Piece], list[Piece]] = ([], [])
    for tag, *ends in matching.get_opcodes():
        bounds = (ends[0], ends[1]), (ends[2], ends[3])
        for side, said, (start, end) in zip(sides, (before, after), bounds, strict=True):
            if start < end:
                side.append(Piece("".join(said[start:end]), tag != "equal"))
    return tuple(sides[0]), tuple(sides[1])
