"""What happens to the tool calls of one reply: which run, which are refused, and why."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.tools.definitions import ActivityTarget
from perdure.domain.turns.repeated_tool_calls import ToolCounters, count_arguments, counted
from perdure.domain.turns.settings import ToolFilter


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


def canonical_json(value: JsonValue) -> str:
    """One spelling per value: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


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


def _plan_one(
    call: RequestedCall,
    term: ToolPolicy | None,
    on_offer: Sequence[str],
    tallies: ToolCounters,
    max_repeat: int,
) -> PlannedCall:
    if term is None or call.name not in on_offer:
        tallies.used = counted(tallies.used, call.name)
        names = ", ".join(on_offer) or "none"
        return PlannedCall(
            call=call,
            verdict="illegal",
            message=f"{call.name!r} is not a tool you can call now; available: {names}",
        )
    times = 1 if term.repeat_exempt else count_arguments(tallies, call.name, call.args_hash)
    if times > max_repeat:
        message = (
            f"{call.name} was already called {times - 1} times with these arguments; "
            "it was not run again. Use what you have, or call it differently."
        )
        return PlannedCall(call=call, verdict="repeat", message=message, repeated=True)
    # Calls that fail count as used; a repeat that was not run does not.
    tallies.used = counted(tallies.used, call.name)
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


def _in_force(rule: ToolFilter, iteration: int, tallies: ToolCounters) -> bool:
    if iteration < rule.after or (rule.until is not None and iteration > rule.until):
        return False
    return all(name in tallies.succeeded for name in rule.requires)


def _lets_by(rule: ToolFilter, term: ToolPolicy) -> bool:
    # `startswith(())` is false: a rule that names neither names nor tags lets no tool by.
    return term.name.startswith(rule.only) or not set(rule.tags).isdisjoint(term.tags)


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
