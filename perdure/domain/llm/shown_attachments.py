"""Which images and PDFs one call shows its model; the others stand there in words.

A conversation is kept as it was, whichever model answers next. So what a model cannot be shown, or
what is more than one call may carry, is replaced when the call is made and never in the transcript.
"""

from collections.abc import Mapping, Sequence

from perdure.domain.llm.attachments import (
    MOST_BYTES_IN_A_CALL,
    MOST_IN_A_CALL,
    MOST_PAGES,
    Attachment,
)
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.llm.transcript import (
    AttachmentBlock,
    Block,
    Message,
    TextBlock,
    ToolResultBlock,
    attachments_of,
    shows_any,
)

Key = tuple[int, int, int]
TOO_MUCH = "left out, because one call shows no more; read it again if you need it"


def as_shown(messages: Sequence[Message], card: ModelProfile) -> tuple[Message, ...]:
    """The messages as this model is sent them.

    What the task itself shows comes first, then what is newest.
    """
    if not shows_any(messages):
        return tuple(messages)
    placed = [
        ((at, number, part), message.pinned, one)
        for at, message in enumerate(messages)
        for number, block in enumerate(message.blocks)
        for part, one in enumerate(attachments_of(block))
    ]
    able = [(key, pinned, one) for key, pinned, one in placed if one.kind in card.attachments]
    newest_first = sorted(able, key=lambda it: (it[1], it[0]), reverse=True)
    shown = _within([(key, one) for key, _, one in newest_first])
    return tuple(_message(message, at, shown, card) for at, message in enumerate(messages))


def _within(wanted: Sequence[tuple[Key, Attachment]]) -> set[Key]:
    shown: set[Key] = set()
    size = pages = 0
    for key, one in wanted:
        size += one.bytes
        pages += one.pages or 0
        if len(shown) == MOST_IN_A_CALL or size > MOST_BYTES_IN_A_CALL or pages > MOST_PAGES:
            break
        shown.add(key)
    return shown


def _message(message: Message, at: int, shown: set[Key], card: ModelProfile) -> Message:
    blocks = tuple(
        _block(block, (at, number), shown, card) for number, block in enumerate(message.blocks)
    )
    return message.model_copy(update={"blocks": blocks})


def _block(block: Block, place: tuple[int, int], shown: set[Key], card: ModelProfile) -> Block:
    match block:
        case AttachmentBlock() if (*place, 0) not in shown:
            return TextBlock(type="text", text=instead(block.file, card))
        case ToolResultBlock() if block.attachments:
            parts = list(enumerate(block.attachments))
            kept = [one for part, one in parts if (*place, part) in shown]
            words = [instead(one, card) for part, one in parts if (*place, part) not in shown]
            text = "\n".join([block.text, *words])
            return block.model_copy(update={"text": text, "attachments": tuple(kept)})
        case _:
            return block


def instead(one: Attachment, card: ModelProfile) -> str:
    """What a model reads in the place of an image or PDF that it is not shown."""
    why = TOO_MUCH if one.kind in card.attachments else why_not_shown(one, card)
    return f"[{one.described}: {why}]"


def sight_problem(
    attachments: Sequence[Attachment], names: Sequence[str], cards: Mapping[str, ModelProfile]
) -> str:
    """Why these models cannot do a task that shows all this, with the cure; empty where they can.

    Args:
        attachments: the images and PDFs of the task.
        names: the models; of one without a card nobody here knows what it can be shown.
        cards: the models' cards by name.
    """
    for name in names:
        for one in attachments:
            if name in cards and one.kind not in cards[name].attachments:
                what = "images" if one.kind == "image" else "PDFs"
                told = f"{why_not_shown(one, cards[name])}, but the task has {one.words}"
                return f"{told}; name a model that takes {what}, or give the content as text"
    return ""


def why_not_shown(one: Attachment, card: ModelProfile) -> str:
    """Why a model is not shown something, in words for it and for people."""
    return f"{card.name} cannot be shown {'images' if one.kind == 'image' else 'PDFs'}"
