"""What was said in a run, message by message."""

import json
from collections.abc import Sequence
from typing import assert_never

from rich.console import RenderableType
from rich.text import Text

from perdure.domain.llm.transcript import (
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from perdure.interfaces.cli.views.formatting import one_line
from perdure.interfaces.cli.views.layout import DIM, WARN, line, stack

_ROLE_STYLES = {"user": "bold cyan", "assistant": "bold green"}


def transcript_view(messages: Sequence[Message]) -> RenderableType:
    """All messages in order, numbered from 1."""
    if not messages:
        return line("Nothing was said yet.")
    return stack(*(_message(number, message) for number, message in enumerate(messages, start=1)))


def _message(number: int, message: Message) -> RenderableType:
    pinned = "  pinned" if message.pinned else ""
    head = line((f"{number} {message.role}", _ROLE_STYLES[message.role]), (pinned, DIM))
    return stack(head, *(_block(block) for block in message.blocks), Text())


def _block(block: Block) -> RenderableType:
    match block:
        case TextBlock():
            return Text(block.text)
        case ThinkingBlock():
            return line(("(thinking, kept for the model)", DIM))
        case ToolUseBlock():
            arguments = one_line(json.dumps(block.arguments, ensure_ascii=False), 400)
            return line(("→ ", WARN), f"{block.name} {arguments}", (f"  {block.id}", DIM))
        case ToolResultBlock():
            whole = f"  whole: {block.ref.hash}" if block.ref else ""
            head = line((f"← {block.name} {block.outcome}", WARN), (whole, DIM))
            return stack(head, Text(block.text))
        case _:
            assert_never(block)
