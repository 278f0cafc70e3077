"""Messages of a conversation and the append-only chain that keeps them.

A transcript is named by the hash of its last link, its head. A link holds the messages of one
append and the hash of its parent, so a thousand turns share all their prefixes.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.foundation.tokens import MESSAGE_OVERHEAD_TOKENS, TokenSizes, estimate
from perdure.domain.llm.attachments import Attachment

GO_ON_PROMPT = "Go on with the task from here; what was said so far stands."
ToolOutcome = Literal["ok", "error", "denied", "effect_uncertain", "interrupted"]


class TextBlock(FrozenModel):
    """Text said by either side."""

    type: Literal["text"]
    text: str


class ThinkingBlock(FrozenModel):
    """A provider's reasoning block. It is signed, so it is kept as it came; failover drops it."""

    type: Literal["thinking"]
    model: str
    native: dict[str, JsonValue]


class ToolUseBlock(FrozenModel):
    """A tool call that the model asked for, already normalised.

    `unreadable` says what is wrong with the JSON of its arguments, of which then none is taken.
    """

    type: Literal["tool_use"]
    id: str
    name: str
    arguments: dict[str, JsonValue]
    unreadable: str = ""


class ToolResultBlock(FrozenModel):
    """What a tool call gave: an excerpt as the model sees it, and the whole by reference.

    `attachments` are the images and PDFs that the model is shown with it.
    """

    type: Literal["tool_result"]
    call_id: str
    name: str
    outcome: ToolOutcome
    text: str
    ref: BlobRef | None = None
    attachments: tuple[Attachment, ...] = ()


class AttachmentBlock(FrozenModel):
    """An image or PDF that the user shows; its content is loaded when a provider is called."""

    type: Literal["attachment"]
    file: Attachment


Block = Annotated[
    TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | AttachmentBlock,
    Field(discriminator="type"),
]


class Message(FrozenModel):
    """One message; pinned ones survive compaction word for word."""

    role: Literal["user", "assistant"]
    blocks: tuple[Block, ...]
    pinned: bool = False

    @property
    def text(self) -> str:
        """The text blocks, joined by blank lines."""
        return "\n\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        """The tool calls in this message, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolUseBlock))

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The images and PDFs in this message, in order; those of tool results among them."""
        return tuple(one for block in self.blocks for one in attachments_of(block))


class Link(FrozenModel):
    """One append to a transcript; `messages_total` and `tokens_total` count the whole chain."""

    parent: str | None
    messages: tuple[Message, ...]
    messages_total: int
    tokens_total: TokenSizes


class TranscriptRef(FrozenModel):
    """The name of a transcript, with the size of everything behind it."""

    hash: str
    messages: int = 0
    tokens: TokenSizes = TokenSizes()


def user_message(*texts: str, pinned: bool = False) -> Message:
    """A user message of one text block each; empty texts are left out."""
    said = [text for text in texts if text] or [""]
    blocks = tuple(TextBlock(type="text", text=text) for text in said)
    return Message(role="user", blocks=blocks, pinned=pinned)


def with_attachments(message: Message, attachments: Sequence[Attachment]) -> Message:
    """The message with images and PDFs in front: models read them best before the question."""
    shown = tuple(AttachmentBlock(type="attachment", file=one) for one in attachments)
    return message.model_copy(update={"blocks": (*shown, *message.blocks)}) if shown else message


def assistant_message(text: str) -> Message:
    return Message(role="assistant", blocks=(TextBlock(type="text", text=text),))


def closed(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with every tool call answered; open calls get the result "interrupted"."""
    kept: list[Message] = []
    for index, message in enumerate(messages):
        kept.append(message)
        following = messages[index + 1].blocks if index + 1 < len(messages) else ()
        answered = {block.call_id for block in following if isinstance(block, ToolResultBlock)}
        # Providers refuse a conversation in which a tool call has no result.
        left = tuple(_interrupted(use) for use in message.tool_uses if use.id not in answered)
        # Results of one reply are appended as one message: there are all of them, or none.
        if left and not answered:
            kept.append(Message(role="user", blocks=left))
    return tuple(kept)


def resumable(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with every call answered, and a word to a model that spoke last."""
    ready = closed(messages)
    if ready and ready[-1].role == "assistant":
        return (*ready, user_message(GO_ON_PROMPT))
    return ready


def _interrupted(use: ToolUseBlock) -> ToolResultBlock:
    return ToolResultBlock(
        type="tool_result",
        call_id=use.id,
        name=use.name,
        outcome="interrupted",
        text="(the conversation was cut off here; this call has no result)",
    )


def message_tokens(message: Message) -> TokenSizes:
    """Estimated tokens of one message, its framing included."""
    sizes = TokenSizes(prose=MESSAGE_OVERHEAD_TOKENS)
    for block in message.blocks:
        sizes = sizes + block_tokens(block)
    return sizes


def block_tokens(block: Block) -> TokenSizes:
    """Estimated tokens of one block; of images and PDFs the most that they can take."""
    sizes = estimate(_visible(block))
    for one in attachments_of(block):
        sizes = sizes + one.tokens
    return sizes


def shows_any(messages: Sequence[Message]) -> bool:
    """Whether any of them has an attachment; asked of whole conversations on every turn."""
    for message in messages:
        for block in message.blocks:
            if isinstance(block, AttachmentBlock):
                return True
            if isinstance(block, ToolResultBlock) and block.attachments:
                return True
    return False


def attachments_of(block: Block) -> tuple[Attachment, ...]:
    """The images and PDFs of one block."""
    match block:
        case AttachmentBlock():
            return (block.file,)
        case ToolResultBlock():
            return block.attachments
        case _:
            return ()


def _visible(block: Block) -> str:
    match block:
        case TextBlock() | ToolResultBlock():
            return block.text
        case ThinkingBlock():
            # It goes back to the provider as it came, signature and all, so all of it counts.
            return str(block.native)
        case ToolUseBlock():
            return f"{block.name} {block.arguments}"
        case AttachmentBlock():
            return block.file.words
