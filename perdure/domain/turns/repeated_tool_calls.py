"""What the tool calls of a run repeat: arguments, results, and how much that brings nothing new.

Repeats are counted over the newest signatures of a run (`SIGNATURES_KEPT`), so that state stays
bounded however long the run is.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.transcript import Message, ToolResultBlock
from perdure.domain.tools.definitions import arguments_hash
from perdure.domain.turns.settings import ToolLoopLevels

SIGNATURES_KEPT = 320
SIGNATURE_LENGTH = 12
_RANK = {"warning": 1, "critical": 2, "circuit_breaker": 3}


class ToolCounters(BaseModel):
    """Counters over the tool calls of a run; bounded.

    `numbers` is what the last output of each tool began with, where it began with a number.
    """

    model_config = ConfigDict(extra="forbid")

    arguments: dict[str, int] = {}
    results: dict[str, int] = {}
    volume: dict[str, int] = {}
    used: dict[str, int] = {}
    succeeded: list[str] = []
    strikes: int = 0
    levels_noted: dict[str, int] = {}
    numbers: dict[str, float] = {}


class VolumeLevel(FrozenModel):
    """A tool that brings nothing new: how often, and what follows."""

    tool: str
    count: int
    level: Literal["warning", "critical", "circuit_breaker"]


def signature(name: str, content: str) -> str:
    """A short, stable name for a call or a result."""
    digest = hashlib.sha256(f"{name}\x00{content}".encode()).hexdigest()
    return digest[:SIGNATURE_LENGTH]


def count_arguments(tallies: ToolCounters, name: str, args_hash: str) -> int:
    """Count a call; returns how often its tool was called with these arguments by now."""
    key = signature(name, args_hash)
    if key in tallies.arguments:
        tallies.volume[name] = tallies.volume.get(name, 0) + 1
    tallies.arguments = counted(tallies.arguments, key)
    return tallies.arguments[key]


def counted(tally: dict[str, int], key: str) -> dict[str, int]:
    """The tally with one more of a key; bounded."""
    # The newest stay at the end, so the oldest signatures are the ones that fall out.
    count = tally.get(key, 0) + 1
    kept = {name: number for name, number in tally.items() if name != key}
    kept[key] = count
    while len(kept) > SIGNATURES_KEPT:
        kept.pop(next(iter(kept)))
    return kept


def times_returned(tallies: ToolCounters, name: str, result_hash: str) -> int:
    """How often a tool has returned a result."""
    return tallies.results.get(signature(name, result_hash), 0)


def note_result(
    tallies: ToolCounters, name: str, *, result_hash: str, is_repeat: bool, max_repeat: int
) -> str | None:
    """Count a result; returns a warning when a tool keeps returning the same one.

    `is_repeat`: the tool was called with these arguments before.

    A call adds to its tool's volume once, whether its arguments or its result were seen before.
    Only for tools whose term `brings_news`.
    """
    seen = times_returned(tallies, name, result_hash)
    tallies.results = counted(tallies.results, signature(name, result_hash))
    if seen and not is_repeat:
        tallies.volume[name] = tallies.volume.get(name, 0) + 1
    if seen + 1 > max_repeat and not is_repeat:
        return f"{name} has returned this same result {seen + 1} times; try something else"
    return None


def note_number(tallies: ToolCounters, name: str, number: float | None) -> None:
    """Remember the number that a tool's last output began with; forget it where there is none."""
    others = {tool: known for tool, known in tallies.numbers.items() if tool != name}
    tallies.numbers = others if number is None else {**others, name: number}


def note_volume_level(tallies: ToolCounters, levels: ToolLoopLevels) -> VolumeLevel | None:
    """The most serious level that a tool has newly reached, each level named once per tool."""
    worst: VolumeLevel | None = None
    for tool, count in sorted(tallies.volume.items(), key=lambda item: -item[1]):
        level = _level(count, levels)
        if level is None or tallies.levels_noted.get(tool, 0) >= _RANK[level]:
            continue
        tallies.levels_noted[tool] = _RANK[level]
        if worst is None or _RANK[level] > _RANK[worst.level]:
            worst = VolumeLevel(tool=tool, count=count, level=level)
    return worst


def note_iteration(
    tallies: ToolCounters, *, is_illegal: bool, succeeded: Iterable[str], meta: set[str]
) -> int:
    """Update the strikes after one iteration's calls, and return them.

    One strike however many illegal calls; back to zero only after an iteration without any, in
    which an ordinary tool succeeded.

    Args:
        tallies: the counts of the run; they are changed.
        is_illegal: a call was not on offer, or its host does not know the tool any more.
        succeeded: the tools whose calls succeeded.
        meta: the tools that heal no strikes.
    """
    good = [name for name in succeeded if name not in meta]
    if is_illegal:
        tallies.strikes += 1
    elif good:
        tallies.strikes = 0
    for name in good:
        if name not in tallies.succeeded:
            tallies.succeeded = [*tallies.succeeded, name]
    return tallies.strikes


def _level(
    count: int, levels: ToolLoopLevels
) -> Literal["warning", "critical", "circuit_breaker"] | None:
    if count >= levels.circuit_breaker:
        return "circuit_breaker"
    if count >= levels.critical:
        return "critical"
    return "warning" if count >= levels.warning else None


def recounted(messages: Sequence[Message]) -> ToolCounters:
    """The tallies of all calls and results that the messages show."""
    tallies = ToolCounters()
    for message in messages:
        for use in message.tool_uses:
            call = signature(use.name, arguments_hash(use.name, use.arguments))
            tallies.used = counted(tallies.used, use.name)
            tallies.arguments = counted(tallies.arguments, call)
        for block in message.blocks:
            if isinstance(block, ToolResultBlock):
                _take(tallies, block)
    return tallies


def _take(tallies: ToolCounters, result: ToolResultBlock) -> None:
    if result.ref is not None:
        tallies.results = counted(tallies.results, signature(result.name, result.ref.hash))
    if result.outcome == "ok" and result.name not in tallies.succeeded:
        tallies.succeeded.append(result.name)
