"""Making a transcript fit its model's window again, with a summary of the turns left out.

It is made of the turns' own words, so that nothing is invented and nobody is paid for it.

Oldest tool results become placeholders first, the newest are protected; then the oldest turns
become a summary beside the task. Pinned messages and the first message (the task) stay word for
word, and no tool call is ever parted from its result.
"""

import re
from collections.abc import Sequence

from perdure.domain.foundation.tokens import estimate
from perdure.domain.llm.transcript import (
    AttachmentBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_tokens,
    message_tokens,
)
from perdure.domain.tools.definitions import READ_ON

HEADING = "[Summary of {count} earlier messages, the oldest first]"
# Nine digits at most: foreign text may have this form, and `int` refuses thousands of them.
_HEADING = re.compile(r"\[Summary of ([0-9]{1,9}) earlier messages, the oldest first\]")
_SAID = 280
_GIVEN = 120
_FOUND = 100
_LEFT_OUT = "… (older lines left out)"


def split_summary(message: Message) -> tuple[Message, tuple[int, tuple[str, ...]]]:
    """A message without the summary of an earlier compaction, and that one's count and lines."""
    # The first block is the task, whatever it says: a summary is put behind it.
    for block in message.blocks[1:]:
        if not isinstance(block, TextBlock):
            continue
        first, *lines = block.text.split("\n")
        if (heading := _HEADING.fullmatch(first)) is not None:
            kept = tuple(other for other in message.blocks if other is not block)
            return message.model_copy(update={"blocks": kept}), (int(heading[1]), tuple(lines))
    return message, (0, ())


def summary_of(
    earlier: tuple[int, tuple[str, ...]], messages: Sequence[Message], *, tokens: int
) -> str:
    """The summary of turns behind an earlier one, in at most so many tokens.

    The newest lines stay; where there is not room for all, it says so.
    """
    count, lines = earlier
    lines = (*(line for line in lines if line != _LEFT_OUT), *_lines(messages))
    heading = HEADING.format(count=count + len(messages))
    room = tokens - estimate(f"{heading}\n{_LEFT_OUT}").total
    kept: list[str] = []
    for line in reversed(lines):
        room -= estimate(line).total + 1
        if room < 0:
            kept.append(_LEFT_OUT)
            break
        kept.append(line)
    return "\n".join([heading, *reversed(kept)])


def _lines(messages: Sequence[Message]) -> list[str]:
    found: list[str] = []
    for message in messages:
        for block in message.blocks:
            match block:
                case TextBlock(text=text) if text.strip():
                    who = "You said" if message.role == "assistant" else "You were told"
                    found.append(f"- {who}: {_short(text, _SAID)}")
                case ToolUseBlock():
                    found.append(
                        f"- You called {block.name} {_short(str(block.arguments), _GIVEN)}"
                    )
                case ToolResultBlock():
                    where = f" ({block.ref.hash})" if block.ref else ""
                    brought = _short(block.text, _FOUND)
                    found.append(f"- {block.name} ended {block.outcome}{where}: {brought}")
                case AttachmentBlock():
                    found.append(f"- You were shown {block.file.described}")
                case _:
                    pass
    return found


def _short(text: str, characters: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= characters else f"{line[:characters]}…"


PROTECTED_RESULT_TOKENS = 40_000
# Compacted before the window is full: this far from its end, in a small one at three quarters.
WINDOW_RESERVE_TOKENS = 20_000
RESERVE_DIVISOR = 4
# Less than there is room for: otherwise the next result would make it due again.
TARGET_SHARE = 0.6
# For a conversation that fits by our count, but that the provider found too long.
UNDERRATED_SHARE = 0.5
LEAST_TARGET_TOKENS = 256
# The summary quotes. One by a model would cost a call just when money and window are short, and
# could leave out or invent things.
SUMMARY_DIVISOR = 8
MOST_SUMMARY_TOKENS = 4_000


def is_due(prompt_tokens: int, *, window: int) -> bool:
    """Whether a prompt comes so near to its model's window that it must be made shorter first.

    The reserve is 20,000 tokens, of a small window a quarter.
    """
    return prompt_tokens > window - _reserve(window)


def target_tokens(*, window: int, fixed: int, factor: float) -> int:
    """The size, by our own count, that a conversation is compacted to.

    Args:
        window: the model's, in its own tokens.
        fixed: system prompt and tools, by our own count.
        factor: the model's tokens for one of ours.
    """
    room = (window - _reserve(window)) / factor - fixed
    return max(LEAST_TARGET_TOKENS, round(room * TARGET_SHARE))


def compact(messages: Sequence[Message], *, target: int, reads: bool = True) -> list[Message]:
    """A list of at most `target` tokens that says the same to a model, oldest details left out.

    Only what may not be touched (pinned messages, the task, the newest words) can be longer. With
    `reads` the model has `artifact.read`, and is told how to read what was left out.
    """
    before = _total(messages)
    limit = target if before > target else round(before * UNDERRATED_SHARE)
    protected = min(PROTECTED_RESULT_TOKENS, limit // 2)
    shortened = _placeholders(messages, limit=limit, protected=protected, reads=reads)
    shorter = _summarized(shortened, limit=limit)
    # Even the newest result goes where nothing else makes the prompt fit.
    if _total(shorter) <= limit:
        return shorter
    return _placeholders(shorter, limit=limit, protected=0, reads=reads)


def _reserve(window: int) -> int:
    return min(WINDOW_RESERVE_TOKENS, window // RESERVE_DIVISOR)


def _total(messages: Sequence[Message]) -> int:
    return sum(_size(message) for message in messages)


def _size(message: Message) -> int:
    """What a message will probably take: by its bound, one PDF would crowd out all else."""
    return message_tokens(message).likely


def _placeholders(
    messages: Sequence[Message], *, limit: int, protected: int, reads: bool
) -> list[Message]:
    """The oldest results left out, one after the other, until the rest is within `limit`."""
    kept, total = list(messages), _total(messages)
    for index in range(_first_protected(messages, protected)):
        if total <= limit:
            break
        if kept[index].pinned:
            continue
        blocks = tuple(
            _placeholder(block, reads=reads) if isinstance(block, ToolResultBlock) else block
            for block in kept[index].blocks
        )
        total -= _size(kept[index])
        kept[index] = kept[index].model_copy(update={"blocks": blocks})
        total += _size(kept[index])
    return kept


def _first_protected(messages: Sequence[Message], protected: int) -> int:
    """From which message on results are protected; the newest are, unless none is."""
    room, first = protected, len(messages)
    if not protected:
        return first
    for index in range(len(messages) - 1, -1, -1):
        results = [block for block in messages[index].blocks if isinstance(block, ToolResultBlock)]
        if not results:
            continue
        room -= sum(block_tokens(block).likely for block in results)
        if room < 0 and first < len(messages):
            return first
        first = index
    return first


def _placeholder(block: ToolResultBlock, *, reads: bool) -> ToolResultBlock:
    stored = block.ref if reads else None
    where = f'; read it with {READ_ON} {{"ref": "{stored.hash}"}}' if stored else ""
    told = "".join(f", {one.described}" for one in block.attachments)
    if told:
        where = "; read it again to see it"
    note = f"[result of {block.name}, {len(block.text)} characters{told}, left out{where}]"
    if block_tokens(block).likely <= estimate(note).total:
        return block
    return block.model_copy(update={"text": note, "attachments": ()})


def _summarized(messages: Sequence[Message], *, limit: int) -> list[Message]:
    """Make a summary of whole turns after the first message until the rest is within `limit`."""
    room = min(MOST_SUMMARY_TOKENS, limit // SUMMARY_DIVISOR)
    sizes = [_size(message) for message in messages]
    total, cut = sum(sizes), 1
    # A cut before an assistant's message parts no call from its results, which come right behind.
    starts = [index for index in range(1, len(messages)) if messages[index].role == "assistant"]
    for start in starts:
        if total <= limit - (room if cut > 1 else 0):
            break
        total -= sum(sizes[index] for index in range(cut, start) if not messages[index].pinned)
        cut = start
    if cut == 1:
        return list(messages)
    pinned = [message for message in messages[1:cut] if message.pinned]
    gone = [message for message in messages[1:cut] if not message.pinned]
    words, earlier = split_summary(messages[0])
    text = summary_of(earlier, gone, tokens=room)
    first = words.model_copy(update={"blocks": (*words.blocks, TextBlock(type="text", text=text))})
    return [first, *pinned, *messages[cut:]]
