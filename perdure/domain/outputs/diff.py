"""What changed between two outputs, and when two count as the same.

The measure is a real line diff, so that one inserted line is one changed line, wherever it stands.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Literal

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.diffs import shared_beginning
from perdure.domain.outputs.content_type import ContentKind, docstring_lines, kind_of, line_kind

ChangeKind = Literal["code", "comments", "docs", "tests", "structure"]
Lines = tuple[int, int]

KINDS: tuple[ChangeKind, ...] = ("code", "comments", "docs", "tests", "structure")
# Spans travel in the state of a run and in its history.
SPANS_KEPT = 64
POPULAR_LINES = 2_000
MOST_PAIRS = 50_000


class Changes(FrozenModel):
    """The difference of a new output from the one before it.

    `fraction` is the part of the lines that changed, from 0 to 1. `spans` are the changed lines of
    the new output, `before` those of the old one, first and last from 1, ends included. `touched`
    are the dimensions whose evidence lies in `before`.
    """

    fraction: float = 1.0
    spans: tuple[Lines, ...] = ()
    before: tuple[Lines, ...] = ()
    kinds: tuple[ChangeKind, ...] = ()
    touched: tuple[str, ...] = ()


def changes_between(old: str, new: str) -> Changes:
    """Compare two outputs line by line."""
    left, right = _comparable(old), _comparable(new)
    edits = _edits(left, right)
    changed = sum(max(i2 - i1, j2 - j1) for i1, i2, j1, j2 in edits)
    total = max(len(left), len(right), 1)
    return Changes(
        fraction=round(min(1.0, changed / total), 4),
        spans=_spans((j1, j2) for _, _, j1, j2 in edits),
        before=_spans((i1, i2) for i1, i2, _, _ in edits),
        kinds=_kinds(old, new, edits),
    )


def around(spans: Iterable[Lines], margin: int) -> frozenset[int]:
    """The lines of all spans, with so many more before and behind each."""
    return frozenset(
        line for first, last in spans for line in range(max(1, first - margin), last + margin + 1)
    )


def overlaps(spans: Iterable[Lines], lines: Iterable[int]) -> bool:
    """Whether one of the lines lies in one of the spans."""
    wanted = frozenset(lines)
    return any(not wanted.isdisjoint(range(first, last + 1)) for first, last in spans)


def _comparable(text: str) -> list[str]:
    """Lines without trailing space, because nobody sees such a change."""
    return [line.rstrip() for line in text.rstrip().split("\n")] if text.strip() else []


def _edits(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """The ranges that differ, from 0 and half open: in the left, in the right.

    Equal ends are taken off first: the matcher looks for long equal blocks, not for few changes,
    and would count a line between equal ones several times.
    """
    start = shared_beginning(left, right)
    end = shared_beginning(left[start:][::-1], right[start:][::-1])
    old, new = left[start : len(left) - end], right[start : len(right) - end]
    # The matcher looks at every pair of equal lines anew for each block that it finds: lines that
    # come often, such as blank ones, take minutes in a long text. As junk they belong to blocks,
    # and begin none. `autojunk` is for many such lines; with both a few more count as new.
    held = Counter(old)
    often = {line for line, times in Counter(new).items() if times * held[line] > MOST_PAIRS}
    matcher = SequenceMatcher(often.__contains__, old, new, autojunk=len(new) > POPULAR_LINES)
    return [
        (start + i1, start + i2, start + j1, start + j2)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def _spans(ranges: Iterable[tuple[int, int]]) -> tuple[Lines, ...]:
    """Half-open ranges from 0 as spans from 1; an empty one is the line that it stands before."""
    spans = [(start + 1, max(start + 1, end)) for start, end in ranges]
    if len(spans) <= SPANS_KEPT:
        return tuple(spans)
    # The last one reaches over all the rest: no changed line may pass for an untouched one.
    kept = spans[: SPANS_KEPT - 1]
    return (*kept, (spans[SPANS_KEPT - 1][0], spans[-1][1]))


def _kinds(
    old: str, new: str, edits: Sequence[tuple[int, int, int, int]]
) -> tuple[ChangeKind, ...]:
    content = kind_of(new)
    found = _side(old, content, [(i1, i2) for i1, i2, _, _ in edits])
    found |= _side(new, content, [(j1, j2) for _, _, j1, j2 in edits])
    return tuple(kind for kind in KINDS if kind in found)


def _side(text: str, content: ContentKind, ranges: Iterable[tuple[int, int]]) -> set[str]:
    lines = text.split("\n")
    documented = docstring_lines(text) if content == "code" else frozenset[int]()
    return {
        "docs" if number + 1 in documented else line_kind(lines[number], content)
        for start, end in ranges
        for number in range(start, end)
    }


HASH_CHARACTERS = 32


class SeenOutputs(FrozenModel):
    """The outputs of a run so far, by hash; as long as the iterations of a run at most."""

    hashes: tuple[str, ...] = ()

    def seen(self, output: str | None) -> bool:
        """Whether an output came before; an absent one never did."""
        key = output_hash(output)
        return key is not None and key in self.hashes

    def after(self, output: str | None) -> "SeenOutputs":
        """With one more output; absent and known ones add nothing, a known one becomes last."""
        key = output_hash(output)
        return self if key is None else self.noted(key)

    def noted(self, key: str) -> "SeenOutputs":
        """With the hash of one more output."""
        others = tuple(known for known in self.hashes if known != key)
        return SeenOutputs(hashes=(*others, key))


def output_hash(output: str | None, *, tree: str | None = None) -> str | None:
    """The hash of the canonical form; None for an absent or blank output.

    With a `tree` the same words about other files are another output.
    """
    if output is None or not output.strip():
        return None
    whole = canonical(output) if tree is None else f"{canonical(output)}\n{tree}"
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_CHARACTERS]


def canonical(output: str) -> str:
    """JSON with sorted keys and no spaces; other text without trailing space on its lines."""
    text = output.strip()
    if text[:1] in {"{", "["}:
        try:
            return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
        except (ValueError, RecursionError):
            pass  # not JSON after all, or too deep to be worth it
    return "\n".join(line.rstrip() for line in text.splitlines())
