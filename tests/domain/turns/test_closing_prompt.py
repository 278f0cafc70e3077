"""The last question always fits, and keeps what matters most."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.foundation.tokens import estimate
from perdure.domain.llm.transcript import (
    Message,
    ToolResultBlock,
    ToolUseBlock,
    assistant_message,
    message_tokens,
    user_message,
)
from perdure.domain.turns.compaction import PROTECTED_RESULT_TOKENS
from perdure.domain.turns.prompts import closing_messages, shortened

ASKED = "Tools are switched off now. Answer in text."


def result(number: int, text: str) -> tuple[Message, Message]:
    """A call and its result."""
    use = ToolUseBlock(type="tool_use", id=f"t{number}", name="fs.read", arguments={})
    block = ToolResultBlock(
        type="tool_result", call_id=use.id, name=use.name, outcome="ok", text=text
    )
    return Message(role="assistant", blocks=(use,)), Message(role="user", blocks=(block,))


def talk(goal: str, results: list[str], note: str) -> list[Message]:
    """A conversation that is about to be closed."""
    said = [message for n, text in enumerate(results) for message in result(n, text)]
    return [user_message(goal, pinned=True), *said, assistant_message(note), user_message(ASKED)]


def test_the_newest_results_stay_and_the_oldest_go() -> None:
    said = talk("Find the port.", [f"page {n} " + "x " * 300 for n in range(30)], "It is near.")
    (message,) = closing_messages(said, room=1_000)
    assert "Find the port." in message.text
    assert "It is near." in message.text
    assert "page 29" in message.text
    assert "page 3 " not in message.text
    assert "earlier ones left out" in message.text
    assert message.text.endswith(ASKED)


def test_what_fits_is_whole() -> None:
    (message,) = closing_messages(talk("Find it.", ["port 80"], "Soon."), room=1_000)
    assert "fs.read: port 80" in message.text
    assert "left out" not in message.text


TEXT = st.text(st.characters(codec="utf-8"), max_size=2_000) | st.just("word " * 5_000)


@given(goal=TEXT, results=st.lists(TEXT, max_size=6), note=TEXT, room=st.integers(60, 5_000))
def test_it_fits_whatever_was_said(goal: str, results: list[str], note: str, room: int) -> None:
    (message,) = closing_messages(talk(goal, results, note), room=room)
    assert message_tokens(message).total <= room
    assert message.text.endswith(ASKED)
    assert not message.tool_uses


@pytest.mark.parametrize("tokens", [0, 10, 100, PROTECTED_RESULT_TOKENS])
def test_a_system_prompt_is_made_shorter(tokens: int) -> None:
    text = "Be kind to all. " * 1_000
    assert estimate(shortened(text, tokens=tokens)).total <= tokens
