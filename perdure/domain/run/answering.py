"""The command that answers a gate, as people copy it into a shell."""

import shlex
from collections.abc import Sequence

from perdure.domain.foundation.plain_text import clipped_line, visible

SHOWN_CHARACTERS = 200
SHOWN_CHOICES = 16


def answer_command(gate: str, choices: Sequence[str], *, beside: str = "") -> str:
    """`perdure answer RUN:g1 CHOICE  (approve, deny)`; pasted as it is, it answers nothing.

    Args:
        gate: as `RUN:g1`.
        choices: of the gate; without any it takes words.
        beside: what else the command may take.
    """
    wanted = "CHOICE" if choices else '"your answer"'
    listed = f"  ({choices_told(choices)})" if choices else ""
    return f"perdure answer {shell_word(gate)} {wanted}{beside}{listed}"


def choices_told(choices: Sequence[str]) -> str:
    """Choices as words of a shell; a model may have written them, so none may act in one."""
    listed = ", ".join(map(shell_word, choices[:SHOWN_CHOICES]))
    more = len(choices) - SHOWN_CHOICES
    return f"{listed} and {more:,} more" if more > 0 else listed


def shell_word(text: str) -> str:
    """Foreign text as one word of a shell."""
    return shlex.quote(choice_line(text))


def choice_line(text: str) -> str:
    """A choice on one line, with nothing hidden in it."""
    return clipped_line(visible(text), SHOWN_CHARACTERS)
