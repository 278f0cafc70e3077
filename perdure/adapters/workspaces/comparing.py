"""Comparing texts line by line, in the process for foreign text."""

from collections.abc import Sequence
from typing import cast

from perdure.adapters.bounded_process.process import work_now

# Lines `i1` to `i2` of the old text become `j1` to `j2` of the new one.
Step = tuple[str, int, int, int, int]


def steps_between(old: Sequence[str], new: Sequence[str]) -> list[Step]:
    """The steps that turn one list of lines into another; equal ends cost nothing.

    Raises:
        TooMuch: the lines are such that comparing them takes too long.
    """
    start = 0
    shorter = min(len(old), len(new))
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    steps: list[Step] = [("equal", 0, start, 0, start)] if start else []
    steps += _between(middle_old, middle_new, start) if middle_old or middle_new else []
    if end:
        steps.append(("equal", len(old) - end, len(old), len(new) - end, len(new)))
    return _joined(steps)


def _between(old: Sequence[str], new: Sequence[str], start: int) -> list[Step]:
    # The answer is that of our own task, whose form this is.
    found = cast("list[Step]", work_now("differences", [*old], [*new]))
    return [(tag, i1 + start, i2 + start, j1 + start, j2 + start) for tag, i1, i2, j1, j2 in found]


def _joined(steps: list[Step]) -> list[Step]:
    """Equal stretches that meet, as one: their lines count together as context."""
    joined: list[Step] = []
    for step in steps:
        if joined and joined[-1][0] == step[0] == "equal":
            last = joined.pop()
            step = ("equal", last[1], step[2], last[3], step[4])
        joined.append(step)
    return joined
