"""Put a transcript into the form of the Messages API, and refuse what the API would refuse.

Adjacent messages of one role are merged, empty text and thinking of other models are dropped, tool
results come first in their message, and a conversation that starts with the assistant gets a short
user message in front. Every tool call must be answered in the message behind it.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from anthropic.types import (
    AssistantMessageParam,
    CacheControlEphemeralParam,
    ContentBlockParam,
    MessageParam,
    TextBlockParam,
    ThinkingBlockParam,
    ToolResultBlockParam,
    ToolUseBlockParam,
    UserMessageParam,
)

from perdure.adapters.llm.error_kinds import refused
from perdure.domain.llm.requests import CacheUse
from perdure.domain.llm.transcript import (
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

LIMIT = 64
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


def wire_name(name: str) -> str:
    """`fs.read` goes out as `fs__read`; what is too long keeps its start and gets a hash."""
    plain = _FOREIGN.sub("_", name.replace(".", "__"))
    if len(plain) <= LIMIT:
        return plain
    return f"{plain[: LIMIT - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def names_back(names: Iterable[str]) -> Mapping[str, str]:
    """Wire name to our name; refuses two tools that would look the same to the model."""
    back: dict[str, str] = {}
    for name in names:
        other = back.setdefault(wire_name(name), name)
        if other != name:
            raise refused(
                f"The tools {other} and {name} are both called {wire_name(name)} on the wire. "
                "Rename one of them."
            )
    return back


OPENING = "This is where the work stands:"
BREAKPOINTS_IN_PREFIX = 2
EPHEMERAL: CacheControlEphemeralParam = {"type": "ephemeral"}

Role = Literal["user", "assistant"]


@dataclass(slots=True)
class _Turn:
    role: Role
    blocks: list[Block]


def wire_messages(
    messages: Sequence[Message], *, model: str, cache: CacheUse
) -> list[MessageParam]:
    """The messages as they are sent.

    Args:
        messages: the transcript, in order.
        model: whose thinking blocks may stay.
        cache: what is marked for the provider's prompt cache.

    Raises:
        ModelError: kind `bad_request`, nothing sent: no message with content, a tool call without
            its result, or a result without its call.
    """
    turns = _merged(messages, model)
    if not turns:
        raise refused("The conversation is empty: there is no message with content to send.")
    if turns[0].role == "assistant":
        turns.insert(0, _Turn("user", [TextBlock(type="text", text=OPENING)]))
    _check_pairs(turns)
    contents = [[_wire(block) for block in _results_first(turn.blocks)] for turn in turns]
    _mark_prefix(turns, contents, cache)
    return [_said_by(turn.role, content) for turn, content in zip(turns, contents, strict=True)]


def _said_by(role: Role, content: list[ContentBlockParam]) -> MessageParam:
    if role == "user":
        return UserMessageParam(role=role, content=content)
    return AssistantMessageParam(role=role, content=content)


def _merged(messages: Sequence[Message], model: str) -> list[_Turn]:
    turns: list[_Turn] = []
    for message in messages:
        blocks = [block for block in message.blocks if _is_sent(block, model)]
        if not blocks:
            continue
        if not turns or turns[-1].role != message.role:
            turns.append(_Turn(message.role, []))
        turns[-1].blocks += blocks
    return turns


def _is_sent(block: Block, model: str) -> bool:
    match block:
        case TextBlock():
            return bool(block.text.strip())
        case ThinkingBlock():
            return block.model == model
        case ToolUseBlock() | ToolResultBlock():
            return True


def _check_pairs(turns: Sequence[_Turn]) -> None:
    open_calls: set[str] = set()
    for turn in turns:
        answered = {block.call_id for block in turn.blocks if isinstance(block, ToolResultBlock)}
        if missing := sorted(open_calls - answered):
            raise refused(f"Tool calls without a result in the next message: {_list(missing)}.")
        if strange := sorted(answered - open_calls):
            raise refused(f"Tool results without a call in the message before: {_list(strange)}.")
        open_calls = {block.id for block in turn.blocks if isinstance(block, ToolUseBlock)}
    if open_calls:
        raise refused(f"Tool calls without a result: {_list(sorted(open_calls))}.")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)


def _results_first(blocks: Sequence[Block]) -> list[Block]:
    return sorted(blocks, key=lambda block: not isinstance(block, ToolResultBlock))


def _wire(block: Block) -> ContentBlockParam:
    match block:
        case TextBlock():
            return TextBlockParam(type="text", text=block.text)
        case ThinkingBlock():
            # Native blocks go back exactly as they came, whichever type of the API they have.
            return cast("ThinkingBlockParam", dict(block.native))
        case ToolUseBlock():
            return ToolUseBlockParam(
                type="tool_use",
                id=block.id,
                name=wire_name(block.name),
                input=dict[str, object](block.arguments),
            )
        case ToolResultBlock():
            return ToolResultBlockParam(
                type="tool_result",
                tool_use_id=block.call_id,
                content=block.text or "(no output)",
                is_error=block.outcome != "ok",
            )


def _mark_prefix(
    turns: Sequence[_Turn], contents: Sequence[list[ContentBlockParam]], cache: CacheUse
) -> None:
    """Mark the ends of the last two user messages: one is read from the cache, one is written.

    A conversation that begins with several blocks begins with what stays the same in others too:
    then its first block is marked instead of the message before the last.
    """
    if cache in {"none", "fixed"}:
        return
    users = [content for turn, content in zip(turns, contents, strict=True) if turn.role == "user"]
    first, several = users[0][0], len(users[0]) > 1
    if several and first["type"] == "text":
        first["cache_control"] = EPHEMERAL
    match cache:
        case "first":
            marked = []
        case "read":
            marked = users[-2:-1]
        case _:
            marked = users[-1:] if several else users[-BREAKPOINTS_IN_PREFIX:]
    for content in marked:
        last = content[-1]
        if last["type"] == "text" or last["type"] == "tool_result":
            last["cache_control"] = EPHEMERAL
