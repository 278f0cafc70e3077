"""A transcript in the form of the Messages API, with marks for its prompt cache."""

from collections.abc import Mapping, Sequence
from typing import cast

from anthropic.types import (
    AssistantMessageParam,
    CacheControlEphemeralParam,
    ContentBlockParam,
    DocumentBlockParam,
    ImageBlockParam,
    MessageParam,
    TextBlockParam,
    ThinkingBlockParam,
    ToolResultBlockParam,
    ToolUseBlockParam,
    UserMessageParam,
)

from perdure.adapters.llm.conversation import (
    NO_OUTPUT,
    Role,
    WireTurn,
    turns_of,
    wire_id,
    wire_name,
)
from perdure.adapters.llm.wire_files import Files, messages_block
from perdure.domain.llm.requests import CacheLife, CacheUse
from perdure.domain.llm.transcript import (
    AttachmentBlock,
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

BREAKPOINTS_IN_PREFIX = 2
MARKS: Mapping[CacheLife, CacheControlEphemeralParam] = {
    "5m": {"type": "ephemeral"},
    "1h": {"type": "ephemeral", "ttl": "1h"},
}


def wire_messages(
    messages: Sequence[Message],
    *,
    model: str,
    cache: CacheUse,
    life: CacheLife = "5m",
    files: Files | None = None,
) -> list[MessageParam]:
    """The messages as they are sent.

    Args:
        messages: the transcript, in order.
        model: whose thinking blocks may stay.
        cache: what is marked for the provider's prompt cache.
        life: how long the cache keeps it.
        files: the content of the images and PDFs in the messages, by address.

    Raises:
        ModelError: kind `bad_request`, nothing sent: no message with content, a tool call without
            its result, or a result without its call.
    """
    turns = turns_of(messages, model=model)
    contents = [[_wire(block, files or {}) for block in turn.blocks] for turn in turns]
    _mark_prefix(turns, contents, cache, MARKS[life])
    return [_said_by(turn.role, content) for turn, content in zip(turns, contents, strict=True)]


def _said_by(role: Role, content: list[ContentBlockParam]) -> MessageParam:
    if role == "user":
        return UserMessageParam(role=role, content=content)
    return AssistantMessageParam(role=role, content=content)


def _wire(block: Block, files: Files) -> ContentBlockParam:
    match block:
        case TextBlock():
            return TextBlockParam(type="text", text=block.text)
        case ThinkingBlock():
            # Native blocks go back exactly as they came, because the API checks their signature.
            # They may have another type than the one that is named here.
            return cast("ThinkingBlockParam", dict(block.native))
        case ToolUseBlock():
            return ToolUseBlockParam(
                type="tool_use",
                id=wire_id(block.id),
                name=wire_name(block.name),
                input=dict[str, object](block.arguments),
            )
        case ToolResultBlock():
            return ToolResultBlockParam(
                type="tool_result",
                tool_use_id=wire_id(block.call_id),
                content=_result(block, files),
                is_error=block.outcome != "ok",
            )
        case AttachmentBlock():
            return messages_block(block.file, files)


def _result(
    block: ToolResultBlock, files: Files
) -> str | list[TextBlockParam | ImageBlockParam | DocumentBlockParam]:
    text = block.text or NO_OUTPUT
    if not block.attachments:
        return text
    shown = [messages_block(one, files) for one in block.attachments]
    return [TextBlockParam(type="text", text=text), *shown]


def _mark_prefix(
    turns: Sequence[WireTurn],
    contents: Sequence[list[ContentBlockParam]],
    cache: CacheUse,
    mark: CacheControlEphemeralParam,
) -> None:
    """Mark the ends of the last two user messages: one mark reads the cache, the last writes it.

    If a conversation begins with several texts, other conversations share the first of them. Then
    that text is marked instead of the user message before the last, because the API allows four
    marks, of which system and tools have two. Images before that text are cached with it.
    """
    if cache in {"none", "fixed"}:
        return
    users = [content for turn, content in zip(turns, contents, strict=True) if turn.role == "user"]
    constant = [block for block in users[0] if block["type"] not in {"image", "document"}]
    first, several = constant[0] if constant else users[0][0], len(constant) > 1
    if several and first["type"] == "text":
        first["cache_control"] = mark
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
            last["cache_control"] = mark
