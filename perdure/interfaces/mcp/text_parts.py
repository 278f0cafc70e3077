"""Long texts in parts: clients refuse a long answer whole, and their models would read it whole."""

import json

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.run.result import RunResult

MOST_CHARACTERS = 16_000


class TextPart(FrozenModel):
    """A part of a text; `next_offset` is where the next part begins, null after the last one."""

    ref: str
    text: str
    offset: int
    total_characters: int
    next_offset: int | None = None


def part_of(data: bytes, *, ref: str, offset: int) -> TextPart:
    """The part that begins with a character.

    Raises:
        InvalidInput: it is no text, or ends before.
    """
    try:
        whole = data.decode()
    except UnicodeDecodeError:
        raise InvalidInput(
            f"ref: {ref} is no text, but {len(data):,} bytes of something else.",
            cure=f"Write it into a file: `perdure artifact RUN {ref} --output FILE`.",
        ) from None
    if offset > len(whole):
        raise InvalidInput(
            f"offset: found {offset}; the text has {len(whole)} characters.",
            cure="Begin with 0, and go on with each next_offset.",
        )
    until = offset + MOST_CHARACTERS
    return TextPart(
        ref=ref,
        text=whole[offset:until],
        offset=offset,
        total_characters=len(whole),
        next_offset=until if until < len(whole) else None,
    )


def shortened(result: RunResult) -> RunResult:
    """The result without its records, and with the beginning of a long output.

    A long value is left out, as it says what the output says.
    """
    short = result.model_copy(update={"iterations": ()})
    # As it is sent: escapes would count each foreign letter six times.
    if len(json.dumps(short.value, ensure_ascii=False)) > MOST_CHARACTERS:
        short = short.model_copy(update={"value": None})
    # Without a reference the rest could not be read, so the output then stays whole.
    if short.output is None or short.output_ref is None or len(short.output) <= MOST_CHARACTERS:
        return short
    return short.model_copy(update={"output": short.output[:MOST_CHARACTERS], "excerpt": True})
