"""Brings a transcript into the order that every provider accepts, with valid names of tools.

Adjacent messages of one role are merged. Empty text and the thinking of other models are dropped.
Tool results come first in their message. A conversation that starts with the assistant gets a short
user message in front. Every tool call must be answered in the next message.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from perdure.adapters.llm.error_kinds import unsent_error
from perdure.domain.llm.requests import ModelRequest
from perdure.domain.llm.transcript import (
    AttachmentBlock,
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

# The longest name of a tool and id of a call that all providers accept, in these characters.
LIMIT = 64
OPENING = "This is where the work stands:"
NO_OUTPUT = "(no output)"
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")

Role = Literal["user", "assistant"]


@dataclass(slots=True)
class WireTurn:
    """What one side says before the other answers."""

    role: Role
    blocks: list[Block]


def wire_name(name: str) -> str:
    """The name of a tool as it is sent: `fs.read` as `fs__read`, too long ones cut, with a hash."""
    plain = _FOREIGN.sub("_", name.replace(".", "__"))
    return plain if len(plain) <= LIMIT else _hashed(plain, name)


def wire_id(call: str) -> str:
    """The id of a tool call as it is sent: another provider's may have characters refused here."""
    plain = _FOREIGN.sub("_", call)
    # Replaced characters could make two ids equal; the hash keeps them apart.
    return plain if plain == call and len(call) <= LIMIT else _hashed(plain, call)


def _hashed(plain: str, whole: str) -> str:
    return f"{plain[: LIMIT - 9]}_{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def names_back(names: Iterable[str]) -> Mapping[str, str]:
    """Our names of tools by their wire names; two tools with one wire name are refused."""
    back: dict[str, str] = {}
    for name in names:
        other = back.setdefault(wire_name(name), name)
        if other != name:
            raise unsent_error(
                f"The tools {other} and {name} are both called {wire_name(name)} on the wire. "
                "Rename one of them."
            )
    return back


def check_request(request: ModelRequest) -> None:
    """Refuse a request that no provider would accept."""
    names = {tool.name for tool in request.tools}
    choice = request.tool_choice
    if request.max_tokens < 1:
        raise unsent_error(f"max_tokens is {request.max_tokens}; a reply needs at least 1.")
    if choice not in {"auto", "none", "any"} and choice not in names:
        raise unsent_error(f"The forced tool {choice} is not among the offered tools.")
    if choice == "any" and not names:
        raise unsent_error("A tool call is demanded, but no tool is offered.")


def turns_of(messages: Sequence[Message], *, model: str) -> list[WireTurn]:
    """The messages as turns that alternate, the user's first.

    Args:
        messages: the transcript, in order.
        model: whose thinking blocks may stay.

    Raises:
        ModelError: kind `bad_request`, nothing sent: no message with content, a tool call without
            its result, or a result without its call.
    """
    turns = _merged(messages, model)
    if not turns:
        raise unsent_error("The conversation is empty: there is no message with content to send.")
    if turns[0].role == "assistant":
        turns.insert(0, WireTurn("user", [TextBlock(type="text", text=OPENING)]))
    _check_pairs(turns)
    return [WireTurn(turn.role, _results_first(turn.blocks)) for turn in turns]


def _merged(messages: Sequence[Message], model: str) -> list[WireTurn]:
    turns: list[WireTurn] = []
    for message in messages:
        blocks = [block for block in message.blocks if _is_sent(block, model)]
        if not blocks:
            continue
        if not turns or turns[-1].role != message.role:
            turns.append(WireTurn(message.role, []))
        turns[-1].blocks += blocks
    return turns


def _is_sent(block: Block, model: str) -> bool:
    match block:
        case TextBlock():
            return bool(block.text.strip())
        case ThinkingBlock():
            return block.model == model
        case ToolUseBlock() | ToolResultBlock() | AttachmentBlock():
            return True


def _check_pairs(turns: Sequence[WireTurn]) -> None:
    open_calls: set[str] = set()
    for turn in turns:
        answered = {block.call_id for block in turn.blocks if isinstance(block, ToolResultBlock)}
        if missing := sorted(open_calls - answered):
            named = ", ".join(missing)
            raise unsent_error(f"Tool calls without a result in the next message: {named}.")
        if strange := sorted(answered - open_calls):
            named = ", ".join(strange)
            raise unsent_error(f"Tool results without a call in the message before: {named}.")
        open_calls = {block.id for block in turn.blocks if isinstance(block, ToolUseBlock)}
    if open_calls:
        raise unsent_error(f"Tool calls without a result: {', '.join(sorted(open_calls))}.")


def _results_first(blocks: Sequence[Block]) -> list[Block]:
    # A stable sort: among themselves, results and all other blocks keep their order.
    return sorted(blocks, key=lambda block: not isinstance(block, ToolResultBlock))
