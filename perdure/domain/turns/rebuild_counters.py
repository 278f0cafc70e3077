"""What the tool calls of a transcript add up to, for a conversation that is taken up again.

Strikes and the volume of repeats are forgiven: they speak of the turns just before.
"""

from collections.abc import Sequence

from perdure.domain.llm.transcript import Message, ToolResultBlock, closed, user_text
from perdure.domain.tools.definitions import arguments_hash
from perdure.domain.turns.tool_call_rules import SIGNATURES_KEPT, ToolCounters, signature

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
