"""A prompt as it was sent, split into folding parts: system, task, recall, feedback, results."""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from perdure.domain.foundation.tokens import estimate
from perdure.domain.llm.attachments import Attachment
from perdure.domain.llm.transcript import (
    AttachmentBlock,
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    attachments_of,
    block_tokens,
)

# First lines of prompt sections that do not come from the task.
_HEADINGS = {
    "Known from earlier work:": "Recalled",
    "Procedures that served such work before:": "Skills",
    "Plan:": "Plan",
}


class Part(NamedTuple):
    """A part of a prompt or reply: title, text, estimated tokens, and attachments."""

    title: str
    text: str
    tokens: int
    shows: tuple[Attachment, ...] = ()


def prompt_parts(system: str | None, messages: Sequence[Message]) -> tuple[Part, ...]:
    """The parts in order; each block and each known heading begins a new one."""
    found = [part_of("System", system)] if system else []
    task = True
    for message in messages:
        for block in message.blocks:
            if isinstance(block, TextBlock) and message.role == "user":
                found += _user_parts(block.text, "Task" if task else "Feedback")
                task = False
            else:
                found.append(_block_part(block))
    return tuple(found)


def reply_parts(message: Message) -> tuple[Part, ...]:
    """The parts of a reply: its text, its calls, its thinking."""
    return tuple(_block_part(block) for block in message.blocks)


def part_of(title: str, text: str) -> Part:
    """A part with its estimated tokens."""
    return Part(title, text, estimate(text).total)


def measured_part(title: str, text: str, block: Block) -> Part:
    """A part whose images and PDFs are counted besides its text."""
    tokens = estimate(text).total + block_tokens(block).media
    return Part(title, text, tokens, tuple(attachments_of(block)))


def _user_parts(text: str, title: str) -> Iterable[Part]:
    kept: list[str] = []
    for section in text.split("\n\n"):
        heading = _HEADINGS.get(section.split("\n", 1)[0].strip())
        if heading is not None:
            if kept:
                yield part_of(title, "\n\n".join(kept))
            title, kept = heading, []
        kept.append(section)
    yield part_of(title, "\n\n".join(kept))


def _block_part(block: Block) -> Part:
    match block:
        case TextBlock():
            return part_of("Text of the model", block.text)
        case ThinkingBlock():
            return part_of("Thinking", _as_json(block.native))
        case ToolUseBlock():
            told = block.unreadable or _as_json(block.arguments)
            return part_of(f"Call of {block.name}", told)
        case ToolResultBlock():
            said = "\n".join([block.text, *(one.words for one in block.attachments)])
            return measured_part(f"Result of {block.name} ({block.outcome})", said, block)
        case AttachmentBlock():
            return measured_part(
                "Image" if block.file.kind == "image" else "PDF", block.file.words, block
            )


def _as_json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
