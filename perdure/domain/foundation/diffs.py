"""Unified diffs for people to review.

The cost is linear in the length of the texts, except for a small middle part. Texts may be hostile,
and a matcher that compares every pair of lines takes minutes on some.
"""

import difflib
from collections.abc import Sequence

CONTEXT_LINES = 3
MATCHED_LINES = 300


def unified(before: str | None, after: str, *, path: str) -> str:
    """The diff from `before` (None: there is no file) to `after`; empty where they are equal."""
    if before == after:
        return ""
    old, new = _lines(before or ""), _lines(after)
    start = shared_beginning(old, new)
    # Of the rest alone, so that no line counts for both ends.
    end = shared_beginning(old[start:][::-1], new[start:][::-1])
    left, right = old[start : len(old) - end], new[start : len(new) - end]
    head = old[max(0, start - CONTEXT_LINES) : start]
    tail = old[len(old) - end : len(old) - end + CONTEXT_LINES] if end else []
    title = f"--- {'/dev/null' if before is None else f'a/{path}'}\n+++ b/{path}"
    first = start - len(head) + 1
    where = (
        f"@@ -{first},{len(head) + len(left) + len(tail)}"
        f" +{first},{len(head) + len(right) + len(tail)} @@"
    )
    return "\n".join(
        [title, where, *_marked(" ", head), *_changed(left, right), *_marked(" ", tail)]
    )


def _changed(left: list[str], right: list[str]) -> list[str]:
    if max(len(left), len(right)) > MATCHED_LINES:
        return [*_marked("-", left), *_marked("+", right)]
    rows: list[str] = []
    # With `autojunk` a line that comes often would count as changed; the bound above keeps it fast.
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            rows += _marked(" ", left[i1:i2])
        else:
            rows += [*_marked("-", left[i1:i2]), *_marked("+", right[j1:j2])]
    return rows


def _marked(mark: str, lines: list[str]) -> list[str]:
    return [f"{mark}{line}" for line in lines]


def _lines(text: str) -> list[str]:
    """The lines; a last one without an end says so, as in a patch."""
    if not text:
        return []
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]}\n\\ No newline at end of file"]


def shared_beginning(left: Sequence[str], right: Sequence[str]) -> int:
    """How many lines both begin with."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (one, two) in pairs if one != two), min(len(left), len(right)))
