"""What people are asked on behalf of a tool call: an approval, or a question of the model."""

import json
from collections.abc import Collection, Mapping

from pydantic import JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.plain_text import visible
from perdure.domain.turns.tool_call_rules import RequestedCall

SHOWN_CHARACTERS = 3_000


class Question(FrozenModel):
    """A model's question to a person."""

    text: str
    choices: tuple[str, ...] = ()


def call_shown(
    arguments: Mapping[str, JsonValue], *, shows: str = "", tells: Collection[str] = ()
) -> str:
    """All of a call as a person reads it; signs that have no shape are shown by their number.

    Args:
        arguments: as the model gave them.
        shows: what the call would do, such as a diff.
        tells: the arguments that `shows` holds in full.
    """
    lines = [
        line
        for name, value in arguments.items()
        if name not in tells
        for line in _argument(name, value)
    ]
    return visible("\n".join([*lines, *([shows] if shows else [])]))


def approval_prompt(call: RequestedCall, shown: str, *, left_out: int, run: str) -> str:
    """The question: the call that would run, what of it had no room here, and how to see that."""
    rest = (
        f"\n[… {left_out:,} more characters, not shown here. Read all of it before you approve: "
        f"perdure gates {run} --full]"
        if left_out
        else ""
    )
    return f"Approve {call.name}?\n{shown}{rest}\nhash of the call: {call.args_hash}"


def question_of(call: RequestedCall) -> Question:
    """The question in a `human.ask` call; what is no text is shown as it came."""
    arguments = call.arguments or {}
    text = arguments.get("question")
    given = arguments.get("choices")
    choices = tuple(str(choice) for choice in given) if isinstance(given, list) else ()
    return Question(
        text=text if isinstance(text, str) and text.strip() else json.dumps(arguments),
        choices=choices[:10],
    )


def _argument(name: str, value: JsonValue) -> list[str]:
    if isinstance(value, str) and "\n" in value:
        # No line of a text can pose as another argument.
        return [f"{name}:", *(f"  | {line}" for line in value.split("\n"))]
    told = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return [f"{name}: {told}"]
