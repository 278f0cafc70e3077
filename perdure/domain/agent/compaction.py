"""Making a transcript fit its model's window again.

Oldest tool results become placeholders first, the newest are protected; then the oldest turns are
dropped behind a note. Pinned messages and the first message (the task) stay word for word, and no
tool call is ever parted from its result.
"""

from collections.abc import Sequence

from perdure.domain.tokens import estimate
from perdure.domain.transcript import Message, TextBlock, ToolResultBlock, message_tokens

PROTECTED_RESULT_TOKENS = 40_000
KEPT_SHARE = 0.5
WINDOW_RESERVE_TOKENS = 20_000
MOST_RESERVED_SHARE = 4


def is_due(prompt_tokens: int, *, window: int) -> bool:
    """Whether a prompt comes so near to its model's window that it must be made shorter first.

    The reserve is 20,000 tokens, of a small window a quarter (common spec, context).
    """
    reserve = min(WINDOW_RESERVE_TOKENS, window // MOST_RESERVED_SHARE)
    return prompt_tokens > window - reserve


def compact(messages: Sequence[Message]) -> list[Message]:
    """A shorter list that says the same to a model, oldest details left out."""
    shortened = _placeholders(messages, protected=_protected(messages))
    before = sum(message_tokens(message).total for message in messages)
    after = sum(message_tokens(message).total for message in shortened)
    if after <= before * KEPT_SHARE:
        return shortened
    return _without_oldest(shortened, limit=round(before * KEPT_SHARE))


def _protected(messages: Sequence[Message]) -> int:
    whole = sum(message_tokens(message).total for message in messages)
    return min(PROTECTED_RESULT_TOKENS, whole // 4)


def _placeholders(messages: Sequence[Message], *, protected: int) -> list[Message]:
    room = protected
    kept: list[Message] = []
    for message in reversed(messages):
        blocks: list[object] = []
        for block in reversed(message.blocks):
            if isinstance(block, ToolResultBlock):
                room -= len(block.text) // 4
                if room < 0 and not message.pinned:
                    block = _placeholder(block)
            blocks.append(block)
        kept.append(message.model_copy(update={"blocks": tuple(reversed(blocks))}))
    return list(reversed(kept))


def _placeholder(block: ToolResultBlock) -> ToolResultBlock:
    where = f'; read it with artifact.read {{"ref": "{block.ref.hash}"}}' if block.ref else ""
    note = f"[result of {block.name}, {len(block.text)} characters, left out{where}]"
    if estimate(block.text).total <= estimate(note).total:
        return block
    return block.model_copy(update={"text": note})


def _without_oldest(messages: Sequence[Message], *, limit: int) -> list[Message]:
    """Drop whole turns after the first message until the rest is within `limit` tokens."""
    sizes = [message_tokens(message).total for message in messages]
    total, cut = sum(sizes), 1
    starts = [index for index in range(1, len(messages)) if _starts_turn(messages[index])]
    for start in starts[:-1]:
        if total <= limit:
            break
        total -= sum(sizes[cut:start])
        cut = start
    if cut == 1:
        return list(messages)
    pinned = [message for message in messages[1:cut] if message.pinned]
    note = TextBlock(type="text", text=f"[{cut - 1 - len(pinned)} earlier messages left out]")
    first = messages[0].model_copy(update={"blocks": (*messages[0].blocks, note)})
    return [first, *pinned, *messages[cut:]]


def _starts_turn(message: Message) -> bool:
    return message.role == "assistant"
