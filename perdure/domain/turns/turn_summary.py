"""The summary that stands for turns that were left out: what was said, called and found, in order.

It is made of the turns' own words, so that nothing is invented and nobody is paid for it.
"""

from collections.abc import Sequence

from perdure.domain.foundation.tokens import estimate
from perdure.domain.llm.transcript import Message, TextBlock, ToolResultBlock, ToolUseBlock

HEADING = "[Summary of {count} earlier messages, the oldest first]"
_BEGINS = HEADING.partition("{")[0]
_SAID = 280
_GIVEN = 120
_FOUND = 100
_LEFT_OUT = "… (older lines left out)"


def summarized(message: Message) -> tuple[Message, tuple[int, tuple[str, ...]]]:
    """A message without the summary of an earlier compaction, and that one's count and lines."""
    for block in message.blocks:
        if isinstance(block, TextBlock) and block.text.startswith(_BEGINS):
            kept = tuple(other for other in message.blocks if other is not block)
            heading, *lines = block.text.split("\n")
            count = heading.removeprefix(_BEGINS).split(" ")[0]
            return message.model_copy(update={"blocks": kept}), (int(count), tuple(lines))
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
                case _:
                    pass
    return found


def _short(text: str, characters: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= characters else f"{line[:characters]}…"
