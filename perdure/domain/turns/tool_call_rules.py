"""What happens to the tool calls of one reply: which run, which are refused, and why.

Repeats are counted over the newest signatures of a run (`SIGNATURES_KEPT`), so that state stays
bounded however long the run is.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.transcript import Message, ToolResultBlock, closed, user_text
from perdure.domain.tools.definitions import ActivityTarget, arguments_hash
from perdure.domain.turns.settings import ToolFilter, ToolLoopLevels

# Repeats are counted over the newest calls: the state stays bounded however long a run lasts.
SIGNATURES_KEPT = 320
SIGNATURE_LENGTH = 12


class RequestedCall(FrozenModel):
    """A tool call as the model asked for it, its name normalised already.

    `args_hash` is the SHA-256 of name and canonical arguments; `label` a few words for summaries;
    `arguments` are there only where the workflow itself acts on them; `unreadable` says why none
    could be taken.
    """

    id: str
    name: str
    args_hash: str
    label: str = ""
    arguments: dict[str, JsonValue] | None = None
    unreadable: str = ""


class ToolPolicy(FrozenModel):
    """What a workflow must know of a tool to schedule it."""

    name: str
    access: str = "read"
    idempotent: bool = False
    needs_approval: bool = False
    timeout_s: float = 30.0
    exclusive: bool = False
    meta: bool = False
    repeat_exempt: bool = False
    person: bool = False
    tags: tuple[str, ...] = ()
    activity: ActivityTarget | None = None

    @property
    def brings_news(self) -> bool:
        """Whether its result is what it is called for: one as before is then a sign of a loop.

        A tool that changes something says "done" each time, and each call of it is of use.
        """
        return self.access in {"read", "network"}


CallVerdict = Literal["run", "approve", "ask", "repeat", "illegal", "unreadable"]


class PlannedCall(FrozenModel):
    """One call of a reply with what is to be done about it; `message` is for the model.

    `repeated` says that the same tool was called with the same arguments before.
    """

    call: RequestedCall
    verdict: CallVerdict
    message: str = ""
    repeated: bool = False


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


def canonical_json(value: JsonValue) -> str:
    """One spelling per value: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def signature(name: str, content: str) -> str:
    """A short, stable name for a call or a result."""
    digest = hashlib.sha256(f"{name}\x00{content}".encode()).hexdigest()
    return digest[:SIGNATURE_LENGTH]


def normalize_name(name: str, known: Iterable[str], aliases: dict[str, str]) -> str:
    """The exact name, else a declared alias, else a unique match without case and separators."""
    names = list(known)
    if name in names:
        return name
    if name in aliases:
        return aliases[name]
    wanted = _bare(name)
    matches = [candidate for candidate in names if _bare(candidate) == wanted]
    # Of two that fit, a guess could run another tool than was meant.
    return matches[0] if len(matches) == 1 else name


def offered(
    terms: Sequence[ToolPolicy],
    rules: Sequence[ToolFilter],
    *,
    iteration: int,
    tallies: ToolCounters,
) -> tuple[str, ...]:
    """The names of the tools on offer in an iteration: those that every rule in force lets by."""
    in_force = [rule for rule in rules if _in_force(rule, iteration, tallies)]
    return tuple(term.name for term in terms if all(_lets_by(rule, term) for rule in in_force))


def plan_calls(
    calls: Sequence[RequestedCall],
    *,
    terms: Sequence[ToolPolicy],
    on_offer: Sequence[str],
    tallies: ToolCounters,
    max_repeat: int,
) -> tuple[PlannedCall, ...]:
    """Say of each call whether it runs, and count it; order is kept."""
    by_name = {term.name: term for term in terms}
    return tuple(
        _plan_one(call, by_name.get(call.name), on_offer, tallies, max_repeat) for call in calls
    )


def times_returned(tallies: ToolCounters, name: str, result_hash: str) -> int:
    """How often a tool has returned a result."""
    return tallies.results.get(signature(name, result_hash), 0)


def note_result(
    tallies: ToolCounters, planned: PlannedCall, *, result_hash: str, max_repeat: int
) -> str | None:
    """Count a result; returns a warning when a tool keeps returning the same one.

    A call adds to its tool's volume once, whether its arguments or its result were seen before.
    Only for tools whose term `brings_news`.
    """
    name = planned.call.name
    seen = times_returned(tallies, name, result_hash)
    tallies.results = _counted(tallies.results, signature(name, result_hash))
    if seen and not planned.repeated:
        tallies.volume[name] = tallies.volume.get(name, 0) + 1
    if seen + 1 > max_repeat and not planned.repeated:
        return f"{name} has returned this same result {seen + 1} times; try something else"
    return None


def note_number(tallies: ToolCounters, name: str, number: float | None) -> None:
    """Remember the number that a tool's last output began with; forget it where there is none."""
    others = {tool: known for tool, known in tallies.numbers.items() if tool != name}
    tallies.numbers = others if number is None else {**others, name: number}


def volume_level(tallies: ToolCounters, levels: ToolLoopLevels) -> VolumeLevel | None:
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


_RANK = {"warning": 1, "critical": 2, "circuit_breaker": 3}


def _level(
    count: int, levels: ToolLoopLevels
) -> Literal["warning", "critical", "circuit_breaker"] | None:
    if count >= levels.circuit_breaker:
        return "circuit_breaker"
    if count >= levels.critical:
        return "critical"
    return "warning" if count >= levels.warning else None


def _plan_one(
    call: RequestedCall,
    term: ToolPolicy | None,
    on_offer: Sequence[str],
    tallies: ToolCounters,
    max_repeat: int,
) -> PlannedCall:
    if term is None or call.name not in on_offer:
        tallies.used = _counted(tallies.used, call.name)
        names = ", ".join(on_offer) or "none"
        return PlannedCall(
            call=call,
            verdict="illegal",
            message=f"{call.name!r} is not a tool you can call now; available: {names}",
        )
    times = 1 if term.repeat_exempt else _count_arguments(tallies, call)
    if times > max_repeat:
        message = (
            f"{call.name} was already called {times - 1} times with these arguments; "
            "it was not run again. Use what you have, or call it differently."
        )
        return PlannedCall(call=call, verdict="repeat", message=message, repeated=True)
    # Calls that fail count as used; a repeat that was not run does not.
    tallies.used = _counted(tallies.used, call.name)
    if call.unreadable:
        message = f"{call.name} was not run: its arguments cannot be read: {call.unreadable}."
        return PlannedCall(call=call, verdict="unreadable", message=message, repeated=times > 1)
    # A question first: nobody is asked to approve that they are asked.
    verdict: CallVerdict = "run"
    if term.person:
        verdict = "ask"
    elif term.needs_approval:
        verdict = "approve"
    return PlannedCall(call=call, verdict=verdict, repeated=times > 1)


def _count_arguments(tallies: ToolCounters, call: RequestedCall) -> int:
    key = signature(call.name, call.args_hash)
    if key in tallies.arguments:
        tallies.volume[call.name] = tallies.volume.get(call.name, 0) + 1
    tallies.arguments = _counted(tallies.arguments, key)
    return tallies.arguments[key]


def _counted(tally: dict[str, int], key: str) -> dict[str, int]:
    # The newest stay at the end, so the oldest signatures are the ones that fall out.
    count = tally.get(key, 0) + 1
    kept = {name: number for name, number in tally.items() if name != key}
    kept[key] = count
    while len(kept) > SIGNATURES_KEPT:
        kept.pop(next(iter(kept)))
    return kept


def _in_force(rule: ToolFilter, iteration: int, tallies: ToolCounters) -> bool:
    if iteration < rule.after or (rule.until is not None and iteration > rule.until):
        return False
    return all(name in tallies.succeeded for name in rule.requires)


def _lets_by(rule: ToolFilter, term: ToolPolicy) -> bool:
    # `startswith(())` is false: a rule that names neither names nor tags lets no tool by.
    return term.name.startswith(rule.only) or not set(rule.tags).isdisjoint(term.tags)


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


GO_ON_PROMPT = "Go on with the task from here; what was said so far stands."


def recounted(messages: Sequence[Message]) -> ToolCounters:
    """The tallies of all calls and results that the messages show."""
    tallies = ToolCounters()
    for message in messages:
        for use in message.tool_uses:
            _count(tallies.used, use.name)
            _count(tallies.arguments, signature(use.name, arguments_hash(use.name, use.arguments)))
        for block in message.blocks:
            if isinstance(block, ToolResultBlock):
                _take(tallies, block)
    return tallies


def resumable(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with every call answered, and a word to a model that spoke last."""
    ready = closed(messages)
    if ready and ready[-1].role == "assistant":
        return (*ready, user_text(GO_ON_PROMPT))
    return ready


def _take(tallies: ToolCounters, result: ToolResultBlock) -> None:
    if result.ref is not None:
        _count(tallies.results, signature(result.name, result.ref.hash))
    if result.outcome == "ok" and result.name not in tallies.succeeded:
        tallies.succeeded.append(result.name)


def _count(tally: dict[str, int], key: str) -> None:
    # The newest stay at the end, so the oldest are the ones that fall out.
    tally[key] = tally.pop(key, 0) + 1
    while len(tally) > SIGNATURES_KEPT:
        tally.pop(next(iter(tally)))
