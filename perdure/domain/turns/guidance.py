"""Guidance from people: it applies until it is withdrawn.

Each prompt lists it, and the judge sees it as a demand. It is numbered, so that it can be removed.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import TypeVar

from pydantic import JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.refs import BlobRef

S = TypeVar("S")

SAID_KEPT = 50
SAID_CHARACTERS = 32 * 1024
SAID_SINCE = "Said since the task was given, and demanded of the work like the task itself:"
TAKEN_BACK = "This was taken back and holds no more: {text}"
LOST_TEXT = "(this text is lost)"
ADDED = "added {number}"
_ADDED = re.compile(r"added [1-9]\d*")


class PendingInput(FrozenModel):
    """A message from outside that no model call has seen yet; `ref` is where a long text lies."""

    text: str
    by: str
    ref: BlobRef | None = None


class Said(FrozenModel):
    """One thing that somebody said, under a number that stays its own."""

    number: int
    text: str
    by: str


def standing_refusal(standing: Sequence[Said], text: str | None) -> str | None:
    """Why one more thing cannot hold from here on, or None."""
    if not text:
        return None
    full = len(standing) >= SAID_KEPT
    if not full and sum(len(one.text) for one in standing) + len(text) <= SAID_CHARACTERS:
        return None
    return (
        f"{len(standing)} things said hold already, and each prompt lists them; take some back "
        'with `amend` and {"remove": [1]}'
    )


def number_refusal(standing: Sequence[Said], numbers: Sequence[int]) -> str | None:
    """Why things said cannot be taken back, or None."""
    known = {one.number for one in standing}
    missing = [str(number) for number in numbers if number not in known]
    if not missing:
        return None
    there = ", ".join(str(number) for number in sorted(known)) or "none"
    return f"remove: nothing that was said has the number {', '.join(missing)}; there are: {there}"


def demands(said: Sequence[str]) -> str:
    """What people said, as a judge or worker is told it; empty where nobody said anything."""
    return "\n".join((SAID_SINCE, *(f"- {text}" for text in said))) if said else ""


def with_added(
    inputs: Mapping[str, JsonValue], given: Sequence[PendingInput]
) -> dict[str, JsonValue]:
    """Named inputs with the long texts that were added since, by reference, each once."""
    told = dict(inputs)
    for ref in (one.ref for one in given if one.ref is not None):
        if {"ref": ref.hash} not in told.values():
            numbers = (ADDED.format(number=number) for number in count(1))
            told[next(name for name in numbers if name not in told)] = {"ref": ref.hash}
    return told


def is_added(name: str) -> bool:
    """Whether an input has the name of a text that was added to a run at work."""
    return _ADDED.fullmatch(name) is not None


def without_lost(given: Sequence[PendingInput], lost: Collection[str | None]) -> list[PendingInput]:
    """What was added, without the texts at these addresses."""
    return [one for one in given if one.ref is None or one.ref.hash not in lost]


def not_read(now: Sequence[S], read: Sequence[S]) -> list[S]:
    """What arrived after `read`, of which some may have been taken back meanwhile."""
    left = list(now)
    for one in read:
        # Both are in the order of arrival. Not by their number: what was taken back is gone from
        # `now`, and what came after it would count as read.
        if left and left[0] == one:
            left.pop(0)
    return left


def in_force(standing: Sequence[Said], *more: str) -> list[str]:
    """All that a prompt lists, each once: what holds, and what is said for this once."""
    # What was said since the last prompt is in both.
    return list(dict.fromkeys((*(one.text for one in standing), *more)))


def demands_hash(goal: str, said: Sequence[str]) -> str:
    """Names what an output is judged by beside its rubric: the goal, and what holds."""
    # Stored with drafts: in another form, the best of each open run would be scored anew.
    canonical = json.dumps([goal, *said], separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
