"""A transcript made shorter: what goes first, and what stays word for word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.agent.compaction import compact, is_due
from perdure.domain.refs import Ref
from perdure.domain.transcript import (
    Message,
    ToolResultBlock,
    ToolUseBlock,
    assistant_text,
    message_tokens,
    user_text,
)


def turn(number: int, size: int) -> list[Message]:
    """A tool call and its result of about `size` characters."""
    use = ToolUseBlock(type="tool_use", id=f"c{number}", name="fs.read", arguments={"n": number})
    result = ToolResultBlock(
        type="tool_result",
        call_id=f"c{number}",
        name="fs.read",
        outcome="ok",
        text=f"{number} " + "word " * (size // 5),
        ref=Ref(hash=f"sha256:{number}"),
    )
    return [Message(role="assistant", blocks=(use,)), Message(role="user", blocks=(result,))]


def tokens(messages: list[Message]) -> int:
    return sum(message_tokens(message).total for message in messages)


def result_texts(messages: list[Message]) -> list[str]:
    return [
        block.text
        for message in messages
        for block in message.blocks
        if isinstance(block, ToolResultBlock)
    ]


TASK = user_text("the task", pinned=True)


def test_oldest_results_become_placeholders_and_the_newest_stay():
    messages = [TASK, *(message for number in range(10) for message in turn(number, 8_000))]
    texts = result_texts(compact(messages))
    assert texts[0].startswith("[result of fs.read, ")
    assert 'artifact.read {"ref": "sha256:0"}' in texts[0]
    assert texts[-1] == result_texts(messages)[-1]


def test_where_that_is_not_enough_the_oldest_turns_go_behind_a_note():
    messages = [TASK, *(assistant_text(f"{number} " + "word " * 500) for number in range(20))]
    kept = compact(messages)
    assert kept[0].text.startswith("the task")
    assert "earlier messages left out]" in kept[0].text
    assert kept[-1] == messages[-1]
    assert tokens(kept) <= tokens(messages) * 0.6


def test_pinned_messages_stay_word_for_word():
    said = user_text("use metric units", pinned=True)
    early = [message for number in range(9) for message in turn(number, 400)]
    chat = [assistant_text("word " * 300) for _ in range(30)]
    kept = compact([TASK, said, *early, *chat])
    assert said in kept
    assert "earlier messages left out]" in kept[0].text


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3_000), st.booleans()), max_size=25))
def test_no_call_is_parted_from_its_result(script):
    messages = [TASK]
    for number, (calls, size, pinned) in enumerate(script):
        if calls:
            messages += turn(number, size)
        else:
            messages += [assistant_text("a" * size), user_text("b" * size, pinned=pinned)]
    kept = compact(messages)
    assert kept[0].text.startswith("the task")
    for message, following in zip(kept, [*kept[1:], user_text("")], strict=True):
        answered = [
            block.call_id for block in following.blocks if isinstance(block, ToolResultBlock)
        ]
        assert [use.id for use in message.tool_uses] == answered
    assert [message for message in messages[1:] if message.pinned] == [
        message for message in kept[1:] if message.pinned
    ]
    assert tokens(kept) <= tokens(messages) + 10


@pytest.mark.parametrize(
    ("prompt", "window", "due"),
    [
        pytest.param(180_000, 200_000, False, id="the reserve is free"),
        pytest.param(180_001, 200_000, True, id="into the reserve"),
        pytest.param(6_144, 8_192, False, id="a quarter of a small window is free"),
        pytest.param(6_145, 8_192, True, id="into a quarter of a small window"),
    ],
)
def test_it_is_due_when_the_prompt_reaches_the_reserve(prompt: int, window: int, due: bool) -> None:
    assert is_due(prompt, window=window) is due
