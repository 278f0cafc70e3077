"""What people are asked on behalf of a tool call: an approval, or a question of the model."""

import json

from perdure.domain.agent.calls import CallAsked
from perdure.domain.base import Frozen

SHOWN_CHARACTERS = 3_000


class Question(Frozen):
    """A model's question to a person."""

    text: str
    choices: tuple[str, ...] = ()


def approval_prompt(call: CallAsked) -> str:
    """The exact call that would run, and the hash that an approval must carry."""
    arguments = json.dumps(call.arguments or {}, ensure_ascii=False, indent=1)[:SHOWN_CHARACTERS]
    return f"Approve {call.name}?\n{arguments}\nhash of the call: {call.args_hash}"


def question_of(call: CallAsked) -> Question:
    """The question in a `human.ask` call; what is no text is shown as it came."""
    arguments = call.arguments or {}
    text = arguments.get("question")
    given = arguments.get("choices")
    choices = tuple(str(choice) for choice in given) if isinstance(given, list) else ()
    return Question(
        text=text if isinstance(text, str) and text.strip() else json.dumps(arguments),
        choices=choices[:10],
    )
