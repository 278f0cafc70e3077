"""Two texts side by side in one column: what went, what came, and a little around it."""

import difflib
from typing import Literal, NamedTuple

AROUND = 2
MOST_CHARACTERS = 200_000

Kind = Literal["same", "gone", "new", "gap"]
_KINDS: dict[str, Kind] = {" ": "same", "-": "gone", "+": "new", "@": "gap"}


class Line(NamedTuple):
    """One line of a comparison."""

    kind: Kind
    text: str


def differences(before: str, after: str) -> tuple[Line, ...] | None:
    """Lines that differ, with two around; empty where nothing does, None where it is too long."""
    if len(before) + len(after) > MOST_CHARACTERS:
        return None
    found = difflib.unified_diff(before.splitlines(), after.splitlines(), n=AROUND, lineterm="")
    lines = list(found)[2:]  # without the names of the two
    return tuple(Line(_KINDS[line[0]], "…" if line[0] == "@" else line[1:]) for line in lines)
