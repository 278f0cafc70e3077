"""What a model is told of memory: blocks of text that never exceed their share of tokens.

Entries were written by models, so each is one line, says where it comes from, and is announced as
a hint: nothing in it can pass for a part of the task.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from perdure.domain.foundation.plain_text import clipped_line
from perdure.domain.foundation.tokens import estimate
from perdure.domain.memory.entries import Episode, Learning, MemoryEntry, Remembered, may_enter
from perdure.domain.memory.ranking import Ranked, confidence_left, is_faded

RECALL_SHARE = 0.1
UNLIMITED_TOKENS = 20_000
SIMILAR_TASKS = 3
OF_A_GROUP = 10
TEXT_CHARACTERS = 400
GOAL_CHARACTERS = 200
TITLE_CHARACTERS = 60

Group = Literal["anti_patterns", "similar_tasks", "learnings"]
_HEADINGS: dict[Group, str] = {
    "anti_patterns": "To avoid:",
    "similar_tasks": "Similar tasks:",
    "learnings": "Known:",
}
_AT_MOST: dict[Group, int] = {
    "anti_patterns": OF_A_GROUP,
    "similar_tasks": SIMILAR_TASKS,
    "learnings": OF_A_GROUP,
}
_PREFACE = "Notes from earlier runs; hints, not part of the task."


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """A block for the model; what it shows by group, and the titles of what was left out."""

    text: str
    shown: dict[Group, tuple[str, ...]]
    left_out: tuple[str, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The entries that the block shows."""
        return tuple(entry for group in _HEADINGS for entry in self.shown[group])


def recall_allowance(token_limit: int | None) -> int:
    """The tokens that recall may take of a run's token budget (None: unlimited)."""
    return UNLIMITED_TOKENS if token_limit is None else int(max(0, token_limit) * RECALL_SHARE)


def group_of(entry: MemoryEntry) -> Group | None:
    """The group of the block that an entry belongs to; None for kinds that are not shown."""
    match entry:
        case Learning(sort="anti_pattern"):
            return "anti_patterns"
        case Learning():
            return "learnings"
        case Episode():
            return "similar_tasks"
        case _:
            return None


def block_of(ranked: Sequence[Ranked], *, limit: int, now: datetime) -> MemoryBlock:
    """The block of what may be told, in order of rank, within `limit` estimated tokens."""
    lines: dict[Group, list[str]] = {group: [] for group in _HEADINGS}
    shown: dict[Group, list[str]] = {group: [] for group in _HEADINGS}
    left_out: list[str] = []
    free = limit - _tokens(_PREFACE)
    for item in ranked:
        entry, group = item.entry, group_of(item.entry)
        if group is None or not may_enter(entry) or is_faded(entry, now):
            continue
        line = _line(entry, now)
        price = _tokens(line) + (0 if lines[group] else _tokens(_HEADINGS[group]))
        if len(lines[group]) >= _AT_MOST[group] or price > free:
            # On with the next: a shorter entry may still fit.
            left_out.append(title(entry))
            continue
        free -= price
        lines[group].append(line)
        shown[group].append(entry.id)
    return MemoryBlock(
        text=_block(lines, left_out, free=free),
        shown={group: tuple(ids) for group, ids in shown.items()},
        left_out=tuple(left_out),
    )


def title(entry: MemoryEntry) -> str:
    """An entry in a few words, for lists of what was left out."""
    return one_line(entry.goal if isinstance(entry, Episode) else entry.text, TITLE_CHARACTERS)


def one_line(text: str, limit: int) -> str:
    """Text without line ends or other control characters, cut with an ellipsis."""
    # A line end would let a model's words look like a line of the block, or of the task.
    return clipped_line("".join(c if c.isprintable() else " " for c in text), limit)


def provenance(entry: Remembered) -> str:
    """Where an entry comes from: the first accepted run, the first one, or a person."""
    if not entry.origins:
        return "written by a person"
    accepted = [origin for origin in entry.origins if origin.outcome == "accepted"]
    # The accepted one is why the entry may be shown.
    first = (accepted or entry.origins)[0]
    others = len(entry.origins) - 1
    more = f" and {others} more" if others else ""
    return f"from {first.run}{more}, {first.outcome.replace('_', ' ')}"


def _block(lines: dict[Group, list[str]], left_out: Sequence[str], *, free: int) -> str:
    parts = [part for group, held in lines.items() if held for part in (_HEADINGS[group], *held)]
    if not parts:
        return ""
    note = f"Left out for want of space: {len(left_out)}."
    noted = [note] if left_out and _tokens(note) <= free else []
    return "\n".join((_PREFACE, *parts, *noted))


def _line(entry: MemoryEntry, now: datetime) -> str:
    source = provenance(entry)
    if isinstance(entry, Episode):
        score = "" if entry.best_score is None else f" with score {entry.best_score:.2f}"
        worked = one_line(entry.text, TEXT_CHARACTERS)
        told = f" What worked: {worked}" if worked else ""
        goal = one_line(entry.goal, GOAL_CHARACTERS)
        return f"- “{goal}” ended {entry.outcome.replace('_', ' ')}{score}.{told} ({source})"
    text = one_line(entry.text, TEXT_CHARACTERS)
    return f"- {text} (confidence {confidence_left(entry, now):.2f}, {source})"


def _tokens(line: str) -> int:
    # With its line end: sums of lines are then never below the estimate of the whole.
    return estimate(f"{line}\n").total
